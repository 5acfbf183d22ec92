//! Launches stdio MCP servers as processes on this machine and never loses one.
//!
//! ```no_run
//! use std::sync::Arc;
//! use mcp_launcher_local::LocalLauncher;
//! use mcp_lifecycle_core::{LifecycleClient, ServerConfig, ServerSpec};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let spec = ServerSpec::builder("time", "uvx").arg("mcp-server-time").build()?;
//! let server = ServerConfig::new(Arc::new(LocalLauncher::new()), spec);
//! let client = LifecycleClient::start(server).await?;
//! println!("{:?}", client.list_all_tools().await?);
//! println!("{}", client.shutdown().await?);
//! # Ok(()) }
//! ```
//!
//! # What is guaranteed
//!
//! A termination is `Ok` only when nothing is left of what holds the server; otherwise the error
//! names the survivors.
//!
//! | System | What holds a server | A forced end reaches | When the host is killed |
//! |---|---|---|---|
//! | Linux, by default | a [guardian](Isolation::Guardian), and a cgroup where one can be made | every descendant | the guardian ends all of it |
//! | Linux, by choice | a guardian and a [PID namespace](Isolation::PidNamespace) | every process in the namespace | the kernel ends all of it, also when the guardian is killed with the host |
//! | any Unix; the default on macOS and the BSDs | a [process group](Isolation::ProcessGroup) | the group | Linux: nothing; elsewhere a pipe watcher ends the group, best effort |
//! | Windows | a job object | every process in the job | the kernel ends all of it |
//!
//! Where a system refuses the default, the launcher takes the next best and says so:
//! [`semantics`](mcp_lifecycle_core::ServerLauncher::semantics) has the mechanism and the reason, and
//! [`LocalLauncherBuilder::require`] turns a fallback into an error.
//!
//! Windows is tested under Wine only; macOS and FreeBSD compile and are not tested.
//!
//! # What is not guaranteed
//!
//! - A process in uninterruptible sleep outlives SIGKILL; the error names it.
//! - When guardian *and* host are killed, the next host's
//!   [`reap_orphans`](mcp_lifecycle_core::ServerLauncher::reap_orphans) ends what is left. It does not
//!   find a process that wiped its environment where there was no cgroup.
//! - When the guardian alone is killed and there is no cgroup, a process that wiped its environment
//!   lives, and the error names it.
//! - What another daemon starts for the server (systemd, cron, a container engine) is no descendant
//!   of it. Containers: `ContainerTracker` of `mcp-launcher-docker`.
//! - It contains accidents, not adversaries: a server of the same user can kill its guardian.
//!
//! Every guarantee with its test: `docs/guarantees.md` in the repository. How it works:
//! `docs/containment.md`.

mod blocking;
#[cfg(unix)]
mod group;
#[cfg(target_os = "linux")]
mod guardian;
#[cfg(all(doc, not(doctest)))]
pub mod guide;
#[cfg(windows)]
mod job;
mod launcher;
mod level;
#[cfg(unix)]
mod pipes;
#[cfg(unix)]
mod sys;
#[cfg(feature = "transport")]
mod transport;

#[cfg(windows)]
use mcp_guardian::sys;
#[cfg(unix)]
use mcp_guardian::{identity, worker};
use mcp_tree::{command, orphans};

pub use launcher::{LocalLauncher, LocalLauncherBuilder};
pub use level::Isolation;
