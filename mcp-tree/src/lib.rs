#![doc = include_str!("../README.md")]
//!
//! # The states of a tree
//!
//! ```text
//! spawn ──▶ running ──program exits, others live──▶ running ──the last one is reaped──▶ proven
//!              │                                       ▲                                  ▲
//!              ├──ask: SIGTERM─────────────────────────┘                                  │
//!              ├──kill, drop, or this process is killed: SIGKILL, until none is left──────┤
//!              └──its guardian is killed: SIGKILL to what is found──▶ unproven ──wait─────┘
//! ```
//!
//! The hidden items serve the launchers of this workspace, and change without notice.

#[cfg(target_os = "linux")]
#[doc(hidden)]
pub mod adopted;
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub mod adoptions;
#[doc(hidden)]
pub mod command;
#[cfg(windows)]
#[doc(hidden)]
pub mod command_line;
#[doc(hidden)]
pub mod conclusion;
#[cfg(all(target_os = "linux", feature = "process-wrap"))]
mod contained;
#[cfg_attr(windows, path = "direct/absent.rs")]
#[doc(hidden)]
pub mod direct;
#[doc(hidden)]
pub mod ending;
#[cfg(target_os = "linux")]
mod login;
#[cfg_attr(not(target_os = "linux"), path = "orphans/absent.rs")]
#[doc(hidden)]
pub mod orphans;
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub mod plan;
#[doc(hidden)]
pub mod resolve;
#[cfg(target_os = "linux")]
mod tree;
mod wrapper;

#[cfg(all(target_os = "linux", feature = "process-wrap"))]
pub use contained::{Contained, ContainedChild};
#[cfg(target_os = "linux")]
pub use login::login_path;
#[doc(hidden)]
pub use mcp_guardian::limits::Limits;
#[cfg(target_os = "linux")]
pub use orphans::{known as inventory, ring as history};
#[cfg(target_os = "linux")]
pub use plan::containment;
#[cfg(target_os = "linux")]
pub use tree::{Ended, Guarded, Options, Tree, Unproven};
pub use wrapper::{Require, WrapError, Wrapper};

#[cfg(target_os = "linux")]
use mcp_guardian::{
    answers, cgroup, file_size, hardened, keep, logged, patience, program, state, worker,
};
use mcp_guardian::{identity, sys};
