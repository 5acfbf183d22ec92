//! Trees of processes on one machine: recorded, found, ended.
//!
//! It has no protocol and no async runtime. Its API serves the launchers of this workspace, and
//! changes without notice.

#[cfg_attr(not(target_os = "linux"), path = "orphans/absent.rs")]
#[doc(hidden)]
pub mod orphans;

#[cfg(target_os = "linux")]
#[doc(hidden)]
pub use orphans::{known as inventory, ring as history};

#[cfg(target_os = "linux")]
use mcp_guardian::{answers, cgroup, file_size, keep, logged, patience, program, state};
#[cfg(unix)]
use mcp_guardian::{identity, sys};
