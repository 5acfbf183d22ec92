//! Containment by process group: what every Unix has.
//!
//! ```text
//!  Running ──leader exits──▶ Leaderless ──nobody left──▶ Gone
//!     │                          │ ▲
//!     └── signals reach ─────────┘ └ each exit of a member looks again
//!         the whole group
//! ```
//!
//! The leader is held by a pidfd. Where the kernel can signal a group through
//! it (Linux 6.9), the leader is reaped at once; elsewhere it stays a zombie
//! until the group is empty, which keeps the group's number from being reissued.
//!
//! Signals wait for nobody: who is in the group is listed beside, on a thread of
//! its own, and a report names those of the swept who were seen in time.
//!
//! Not guaranteed: a process that leaves the group (`setsid`, a daemon, a
//! browser) is not reached, and nothing happens when the host is killed.

mod server;
mod spawn;
mod state;

pub(crate) use spawn::spawn;

use mcp_lifecycle_core::launch::{Containment, Reach};

use crate::sys;

/// The containment that this level promises.
pub(crate) fn containment() -> Containment {
    let (mechanism, on_host_death) = sys::HOST_DEATH;
    Containment::new(mechanism, Reach::Group).with_host_death(on_host_death)
}
