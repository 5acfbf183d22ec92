//! Containment by process group: what every Unix has.
//!
//! The leader is held by a pidfd. Where the kernel can signal a group through it (Linux 6.9), the
//! leader is reaped at once; elsewhere it stays a zombie until the group is empty, which keeps the
//! group's number from being reissued. A thread of its own lists the members; signals do not wait
//! for it.
//!
//! Not guaranteed: a process that leaves the group (`setsid`, a daemon, a browser) is not reached,
//! and nothing happens when the host is killed.

mod server;
mod spawn;
mod state;

pub(crate) use spawn::spawn;

use mcp_lifecycle_core::launch::{Containment, Reach};

pub(crate) fn containment() -> Containment {
    // On Linux only a guardian ends anything when the host dies.
    let (mechanism, on_host_death) = match cfg!(target_os = "linux") {
        true => ("process group", Reach::Nothing),
        false => ("process group and pipe watcher", Reach::Group),
    };
    Containment::new(mechanism, Reach::Group).host_death(on_host_death)
}
