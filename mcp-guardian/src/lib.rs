//! The small program that holds a tree of processes, and the system calls around it.
//!
//! It has no protocol and no async runtime. Its API serves the launchers of this workspace, and
//! changes without notice.

#[cfg(target_os = "linux")]
#[doc(hidden)]
pub mod answers;
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub mod cgroup;
#[doc(hidden)]
pub mod exit;
#[cfg(target_os = "linux")]
pub mod file_size;
#[cfg(unix)]
#[doc(hidden)]
pub mod group;
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub mod hardened;
#[doc(hidden)]
pub mod identity;
#[cfg(target_os = "linux")]
pub mod image;
pub mod init;
#[cfg(target_os = "linux")]
#[doc(hidden)]
#[path = "../guardian-bin/keep.rs"]
pub mod keep;
#[doc(hidden)]
#[path = "../guardian-bin/ladder.rs"]
pub mod ladder;
pub mod limits;
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub mod patience;
#[cfg(unix)]
pub mod private;
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub mod program;
#[cfg(unix)]
pub mod state;
#[cfg_attr(windows, path = "sys/windows/mod.rs")]
#[doc(hidden)]
pub mod sys;
#[cfg(unix)]
#[doc(hidden)]
pub mod worker;
