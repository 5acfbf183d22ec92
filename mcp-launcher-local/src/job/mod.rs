//! Containment by job object: Windows.
//!
//! ```text
//!            ┌──────── leader exits, others live ────────▶ Leaderless ─┐
//!  Running ──┤                                                         ├── job is empty ──▶ Gone
//!            └──────── leader exits, no other lives ───────────────────┘
//! ```
//!
//! The kernel keeps the list of a server's processes. It ends them all on one call, and when the
//! last handle of the job is closed, which only the host holds. So the host's end is the server's,
//! and no search is needed afterwards. See `docs/containment.md`.

mod command_line;
mod pipes;
mod server;
mod spawn;

pub(crate) use spawn::{spawn, start};

use mcp_lifecycle_core::launch::{Containment, Reach};

/// Returns the promise of this containment.
pub(crate) fn containment() -> Containment {
    Containment::new("job object", Reach::Container)
        .host_death(Reach::Container)
        .atomic_placement()
}
