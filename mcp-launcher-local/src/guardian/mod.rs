//! Containment by guardian: the default on Linux.
//!
//! Each server has a small process for a parent, the guardian, which outlives
//! the host for as long as it takes to end everything the server started. What
//! it is and how it works is told in `docs/guardian.md`; [`process`] starts
//! it and speaks its protocol; this module makes a launcher of it.
//!
//! ```text
//!  Spawned ──Started──▶ Running ──MainExited──▶ Leaderless ──Gone──▶ Gone
//!     │                    │                        │
//!     └─ExecFailed─▶ error └──── guardian killed ───┴──▶ Lost
//! ```
//!
//! *Lost* is the one way out without proof: somebody killed the guardian, and
//! the server had no cgroup of its own, or has left it, or
//! nobody could look. The host ends what it can find, and the termination says
//! what may live instead of guessing; forcing the end again looks again. With a
//! cgroup the host ends what is in it, and that is proof.
//!
//! A forced end asks nobody and waits for nobody: the guardian is told, the
//! cgroup is killed, and a guardian that was stopped goes on. One that a tracer
//! holds is replaced by the host, where there is a cgroup.
//!
//! ```text
//! process ── one guardian: its program, its start, its protocol
//! probe ──── what this machine allows
//! spawn ──── one launch: streams, identity, cgroup, guardian, and its undoing
//! spares ─── guardians that are ready before there is a server
//! demand ─── how many of them. Pure
//! lull ───── when they are made. Pure
//! fitness ── whether they are of use
//! surroundings  for which launches they will do
//! server ─── the primitives of a running server
//! hear ───── what the guardian reports, and its end
//! conclude ─ from the guardian's last word to the proof
//! take_over  from its death to the host's own proof
//! decide ─── what is a proof there, and what is none. Pure
//! look ───── who lives, by what the host can read itself
//! strays ─── who is not where it was put, and its end
//! adopted ── who was given to another parent, and may be a server's. Pure
//! adoptions  looks at them
//! ```

mod adopted;
mod adoptions;
mod conclude;
mod decide;
mod demand;
mod fitness;
mod hear;
mod look;
mod lull;
mod probe;
#[doc(hidden)]
pub mod process;
mod server;
mod spares;
mod spawn;
mod strays;
mod surroundings;
mod take_over;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mcp_lifecycle_core::launch::{Containment, Reach};

pub(crate) use probe::{Found, known, look_at_machine, probe};
pub(crate) use spares::Spares;
pub(crate) use spawn::{Spawned, argv, c_string, env, explain, spawn};

/// Why something is not available, in words.
pub(crate) type Why = Arc<str>;

/// What a server gets besides its guardian.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The directory below which it gets a cgroup of its own, or why it gets none.
    cgroups: Result<&'static Path, Why>,
    pid_namespace: bool,
    /// The time that a server has to end by itself once the host is gone.
    grace: Duration,
}

impl Plan {
    /// A guardian, with a cgroup if there can be one.
    pub(crate) fn guardian(found: &Found) -> Result<Self, Why> {
        found.guardian.clone()?;
        Ok(Self {
            cgroups: found.cgroups.clone(),
            pid_namespace: false,
            grace: Duration::ZERO,
        })
    }

    /// The same, and a PID namespace.
    pub(crate) fn namespace(found: &Found) -> Result<Self, Why> {
        let guardian = Self::guardian(found)?;
        found.namespaces.clone()?;
        Ok(Self {
            pid_namespace: true,
            ..guardian
        })
    }

    /// The same, with so long to end by itself once the host is gone.
    pub(crate) fn with_grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    /// What this promises. In a namespace, all of it is ended by the kernel with
    /// its init, and that with the guardian: a cgroup would add nothing, so its
    /// absence is no fallback.
    pub(crate) fn containment(&self) -> Containment {
        if self.pid_namespace {
            return Containment::new("PID namespace", Reach::Container)
                .with_host_death(Reach::Container)
                .with_atomic_placement();
        }
        let mechanism = match self.cgroups {
            Ok(_) => "guardian and cgroup",
            Err(_) => "guardian",
        };
        let containment = Containment::new(mechanism, Reach::Tree)
            .with_host_death(Reach::Tree)
            .with_atomic_placement();
        match &self.cgroups {
            Ok(_) => containment,
            Err(why) => containment.with_fallback(format!("no cgroup for each server: {why}")),
        }
    }
}
