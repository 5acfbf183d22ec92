//! Containment by job object: Windows.
//!
//! ```text
//!            ┌──────── leader exits, others live ────────▶ Leaderless ─┐
//!  Running ──┤                                                         ├── job is empty ──▶ Gone
//!            └──────── leader exits, nobody lives ─────────────────────┘
//! ```
//!
//! The kernel keeps the list of a server's processes, ends them all at one order, and also when
//! the last handle of the job is closed, which is held by the host alone. So the host's end is the
//! server's, and nothing has to be looked for afterwards. See `docs/windows.md`.

mod command_line;
mod pipes;
mod server;
mod spawn;

pub(crate) use spawn::{spawn, start};

use mcp_lifecycle_core::launch::{Containment, Reach};

/// What this level promises.
pub(crate) fn containment() -> Containment {
    Containment::new("job object", Reach::Container)
        .with_host_death(Reach::Container)
        .with_atomic_placement()
}
