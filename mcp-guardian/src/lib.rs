//! A tree of processes on one machine: started, held, found, ended, proven.
//!
//! The crate knows no protocol and has no async runtime. Its API is not complete yet: what it has
//! serves the launchers of this workspace, and changes without notice.
//!
//! * [`state`]: directories for records that outlive a process. Checked by descriptor rather than
//!   by name, since `/tmp` is shared.
//! * [`file_size`]: writing below a limit on the size of files.
//! * [`private`]: directories that no other user can change, for files that are found by name.
//! * [`image`]: an embedded program in executable form.
//! * [`init`]: the program for process 1 of a container or pod.

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
#[doc(hidden)]
pub mod identity;
#[cfg(target_os = "linux")]
pub mod image;
pub mod init;
#[cfg_attr(not(target_os = "linux"), path = "orphans/absent.rs")]
#[doc(hidden)]
pub mod orphans;
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
#[cfg(unix)]
#[doc(hidden)]
pub mod sys;
#[cfg(unix)]
#[doc(hidden)]
pub mod worker;

#[cfg(target_os = "linux")]
#[doc(hidden)]
pub use orphans::{known as inventory, ring as history};
