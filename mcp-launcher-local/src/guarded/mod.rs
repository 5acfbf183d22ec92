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
//! *Lost* is the one way out without proof: somebody killed the guardian, and
//! the server had no [cgroup](crate::cgroup) of its own. The server died with
//! it, what had left the server's side may live, and the termination says so
//! instead of guessing. With a cgroup the host ends what is in it, and that is
//! proof.
//!
//! ```text
//! probe ──── what this machine allows
//! spawn ──── one launch: identity, cgroup, guardian
//! server ─── the primitives of a running server
//! conclude ─ from the guardian's last word, or its death, to the proof
//! ```

mod conclude;
mod probe;
mod server;
mod spawn;

use mcp_lifecycle_core::{Containment, Reach};

pub(crate) use spawn::{Spawned, spawn};

/// Why there can be no guardian, if so.
pub(crate) fn unavailable() -> Option<&'static str> {
    probe::possible().err()
}

/// What a server in a PID namespace is promised, or why there is none.
pub(crate) fn namespace_containment() -> Result<Containment, &'static str> {
    let possible = probe::possible()?;
    possible.namespaces?;
    Ok(in_namespace())
}

/// Ended by the kernel with its init, and that with the guardian. A cgroup
/// besides would add nothing, so its absence is no fallback.
fn in_namespace() -> Containment {
    Containment::new("PID namespace", Reach::Container)
        .on_host_death(Reach::Container)
        .placed_atomically()
}

/// What this level promises, on this machine.
pub(crate) fn containment() -> Containment {
    let possible = probe::possible().map(|possible| possible.cgroups);
    with_cgroup(possible.unwrap_or_else(Err).err())
}

/// What a server has, by why it has no cgroup of its own.
fn with_cgroup(why_not: Option<&str>) -> Containment {
    let mechanism = match why_not {
        None => "guardian and cgroup",
        Some(_) => "guardian",
    };
    let containment = Containment::new(mechanism, Reach::Tree)
        .on_host_death(Reach::Tree)
        .placed_atomically();
    match why_not {
        None => containment,
        Some(why) => containment.fell_back(format!("no cgroup for each server: {why}")),
    }
}
