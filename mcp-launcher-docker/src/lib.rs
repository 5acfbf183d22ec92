//! Launches stdio MCP servers as containers through the Docker Engine API, and
//! ends the containers that other servers start.
//!
//! * [`DockerLauncher`] is a [`ServerLauncher`]: a server *is* a container,
//!   described by [`ContainerOptions`] in its specification.
//! * [`ContainerTracker`] is a decorator around a launcher of processes on this
//!   machine: whatever containers its servers start end with them.
//!
//! ```no_run
//! use std::sync::Arc;
//! use mcp_launcher_docker::{ContainerOptions, DockerLauncher};
//! use mcp_lifecycle_core::{LifecycleClient, ServerConfig, ServerLauncher};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let launcher = Arc::new(DockerLauncher::new()?);
//! // What hosts that died left behind.
//! launcher.reap_orphans().await?;
//!
//! let spec = ContainerOptions::new("mcp/time")
//!     .memory("512m")
//!     .network("none")
//!     .server("time")
//!     .build()?;
//! // The image is pulled first, apart from the start-up deadline.
//! let client = LifecycleClient::start(ServerConfig::new(launcher, spec)).await?;
//! let report = client.shutdown().await?;
//! println!("{report}");
//! # Ok(())
//! # }
//! ```
//!
//! # What is guaranteed
//!
//! A termination is `Ok` only when the engine has said that there is no such
//! container (404). A launch that fails or is dropped at any instant leaves no
//! container. An engine that does not answer is an error and never an exit; it
//! is asked until it answers.
//!
//! When the *host* is killed, a server that leaves at the end of its input is
//! gone at once. A server that ignores the end of its input is removed 1 s later
//! by the launcher's *last will*, a small process beside the host, which is started with the first launch; it
//! needs Linux and a daemon behind a Unix socket. Where that process cannot run,
//! such a server lives until [`reap_orphans`] of the next host, and [`Containment::on_host_death`] says
//! so. With [`Init::Supervised`] it is ended within the container, wherever the
//! daemon is and whatever else dies with the host.
//!
//! `docs/docker.md` and `docs/docker-wrappers.md` have the tables of which
//! guarantee holds when, what is not guaranteed, and the labels for operators.
//!
//! # Logging
//!
//! By `tracing`, and never a value of an environment. The client library logs
//! by `log`, at the level of debug, whole requests and answers. Those of a
//! container, with its environment, are kept from a `tracing` subscriber. A
//! logger of `log` itself, such as `env_logger`, gets them: give it the filter
//! `bollard=info` wherever it is set to debug.
//!
//! # Features
//!
//! `tcp`, `tls` and `ssh` add endpoints; Unix sockets and named pipes are always
//! there. No type of the client library is in the public interface.
//!
//! [`ServerLauncher`]: mcp_lifecycle_core::ServerLauncher
//! [`reap_orphans`]: mcp_lifecycle_core::ServerLauncher::reap_orphans
//! [`Containment::on_host_death`]: mcp_lifecycle_core::Containment

#![forbid(unsafe_code)]
#![cfg_attr(
    windows,
    expect(
        dead_code,
        unused_imports,
        reason = "what the tracker of containers behind a wrapper uses, which is for Unix"
    )
)]

#[cfg(all(test, unix))]
mod alone;
mod container;
mod control;
mod dial;
mod endpoint;
mod engine;
#[cfg(all(test, unix))]
mod fake;
#[cfg(all(doc, not(doctest)))]
pub mod guide;
mod labels;
#[cfg_attr(not(unix), path = "last_will/elsewhere.rs")]
mod last_will;
mod launcher;
mod lease;
mod machine;
mod options;
mod origin;
mod orphans;
mod program;
mod progress;
mod supervised;
#[cfg(unix)]
mod wrapper;

pub use endpoint::{Endpoint, EndpointError};
pub use launcher::{DockerLauncher, DockerLauncherBuilder};
pub use options::{ByteSize, ContainerOptions, Gpus, Init, Mount, PullPolicy};
pub use progress::{PullObserver, PullProgress};
#[cfg(unix)]
pub use wrapper::{ContainerTracker, FoundContainers, ProxyMode, ReapPolicy};
