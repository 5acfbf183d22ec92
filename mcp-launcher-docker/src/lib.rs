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
//! A termination is `Ok` only when the engine has reported that the container does not exist (404).
//! A launch that fails or is dropped at any instant leaves no container. An engine that does not
//! respond is an error and never an exit; it is asked until it responds.
//!
//! When the *host* is killed, a server that exits at the end of its input is gone at once. A server
//! that ignores it is removed 1 s later by the launcher's *last will*, a small process beside the
//! host, which starts with the first launch; it needs Linux and a daemon behind a Unix socket.
//! Without it, such a server lives until [`reap_orphans`] of the next host, as
//! [`Containment::on_host_death`] declares. With [`Init::Supervised`] it is ended within the
//! container, for any daemon and whatever else dies with the host.
//!
//! `docs/docker.md` lists the guarantees, their limits, and the labels
//! for operators.
//!
//! # Logging
//!
//! By `tracing`, and never a value of an environment. The client library logs whole requests and
//! responses by `log` at debug level. Those with a container's environment are kept from a
//! `tracing` subscriber, but not from a logger of `log` itself, such as `env_logger`: give it the
//! filter `bollard=info`.
//!
//! # Features
//!
//! `tcp`, `tls` and `ssh` add endpoints; Unix sockets are always available. No type of the client
//! library is in the public interface. The crate is for Unix; elsewhere it is empty.
//!
//! [`ServerLauncher`]: mcp_lifecycle_core::ServerLauncher
//! [`reap_orphans`]: mcp_lifecycle_core::ServerLauncher::reap_orphans
//! [`Containment::on_host_death`]: mcp_lifecycle_core::Containment

#![forbid(unsafe_code)]
// Engines on Windows were never tried.
#![cfg(unix)]

#[cfg(test)]
mod alone;
mod container;
mod control;
mod dial;
mod endpoint;
mod engine;
#[cfg(test)]
mod fake;
#[cfg(all(doc, not(doctest)))]
pub mod guide;
mod host;
mod labels;
mod last_will;
mod launcher;
mod ledger;
mod machine;
mod options;
mod orphans;
mod supervised;
mod wrapper;

pub use endpoint::{Endpoint, EndpointError};
pub use launcher::{DockerLauncher, DockerLauncherBuilder};
pub use options::{ByteSize, ContainerOptions, Init, Mount, PullPolicy};
pub use wrapper::{ContainerTracker, ProxyMode, ReapPolicy, Tracked, Tracking};
