//! Containment by guardian: the default on Linux.
//!
//! Each server has a small process for a parent, the guardian, which outlives
//! the host for as long as it takes to end everything the server started. What
//! it is and how it works is told in `docs/guardian.md`; [`crate::guard`] starts
//! it and speaks its protocol; this module makes a launcher of it.
//!
//! ```text
//!  Spawned ──Started──▶ Running ──MainExited──▶ Leaderless ──Gone──▶ Gone
//!     │                    │                        │
//!     └─ExecFailed─▶ error └──── guardian killed ───┴──▶ Lost
//! ```
//!
//! *Lost* is the one way out without proof: somebody killed the guardian. The
//! server died with it, what had left the server's side may live, and the
//! termination says so instead of guessing.

mod probe;
mod server;
mod spawn;

use mcp_lifecycle_core::{Containment, Reach};

pub(crate) use probe::unavailable;
pub(crate) use spawn::{Spawned, spawn};

/// What this level promises.
pub(crate) fn containment() -> Containment {
    Containment::new("guardian", Reach::Tree)
        .on_host_death(Reach::Tree)
        .placed_atomically()
}
