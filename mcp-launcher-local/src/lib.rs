#![doc = include_str!("../README.md")]

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
