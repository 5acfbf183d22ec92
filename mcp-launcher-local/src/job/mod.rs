//! Containment by job object: Windows.
//!
//! ```text
//!            ┌──────── leader exits, others live ────────▶ Leaderless ─┐
//!  Running ──┤                                                         ├── job is empty ──▶ Gone
//!            └──────── leader exits, no other lives ───────────────────┘
//! ```
//!
//! The kernel ends all processes of a job on one call, and when its last handle is closed, which
//! only the host holds. So no search is needed afterwards. See `docs/containment.md`.

mod pipes;
mod server;
mod spawn;

pub(crate) use spawn::spawn;

use mcp_lifecycle_core::launch::{Containment, Reach};

pub(crate) fn containment() -> Containment {
    Containment::new("job object", Reach::Container)
        .host_death(Reach::Container)
        .atomic_placement()
}
