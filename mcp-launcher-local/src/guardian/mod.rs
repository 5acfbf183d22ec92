//! Containment by guardian: the default on Linux.
//!
//! Each server's parent is a small process, the guardian, which outlives the host until everything
//! that the server started has ended: `docs/containment.md`. There is no proof where the guardian
//! was killed, and the server had no cgroup of its own, or has left it, or the search failed. The
//! termination names what may live; forcing the end again looks again.
//!
//! ```text
//! probe ──── tries out which containment this machine allows
//! launch ─── starts the guardian of one command
//! spawn ──── one launch: streams, identity, cgroup, guardian, and its undoing
//! server ─── the primitives of a running server
//! hear ───── receives the guardian's reports, and its end
//! conclude ─ does what the `conclusion` asks for
//! look ───── lists living processes, as far as the host can read them
//! strays ─── ends processes outside the tree and cgroup, by their mark
//! adopted ── reparented processes that may be a server's. Pure
//! adoptions  looks at them
//! ```

mod adopted;
mod adoptions;
mod conclude;
mod hear;
mod launch;
mod look;
mod probe;
mod server;
mod spawn;
mod strays;

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use mcp_lifecycle_core::launch::{Containment, Reach};

use crate::identity;

pub(crate) use launch::{Outcome, Prepared, c_string, explain, new_leaf, no_guardian, outcome};
pub(crate) use probe::{Found, known, look_at_machine, probe};
pub(crate) use spawn::{Spawned, spawn};

/// The time that a failed launch waits for the end of what it had started.
pub(crate) const UNDO_LIMIT: Duration = Duration::from_secs(5);

pub(crate) type Why = Arc<str>;

/// Says how a guardian ended, by what `try_reap` returned.
pub(crate) fn how_it_ended(reaped: &io::Result<Option<ExitStatus>>) -> String {
    match reaped {
        Ok(Some(status)) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("ended with code {code}"),
            (None, Some(signal)) => format!("was killed (signal {signal})"),
            (None, None) => format!("ended with {status}"),
        },
        Ok(None) => "ended and is held by a tracer".to_owned(),
        Err(error) => format!("ended; its exit status is lost ({error})"),
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The directory below which it gets a cgroup of its own, or why it gets none.
    cgroups: Result<&'static Path, Why>,
    pid_namespace: bool,
    /// The time that a server has to end by itself once the host is gone.
    grace: Duration,
}

impl Plan {
    pub(crate) fn guardian(found: &Found) -> Result<Self, Why> {
        found.guardian.clone()?;
        Ok(Self {
            cgroups: found.cgroups.clone(),
            pid_namespace: false,
            grace: Duration::ZERO,
        })
    }

    pub(crate) fn namespace(found: &Found) -> Result<Self, Why> {
        let guardian = Self::guardian(found)?;
        found.namespaces.clone()?;
        Ok(Self {
            pid_namespace: true,
            ..guardian
        })
    }

    pub(crate) fn with_grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    /// Returns the promise of this plan. In a namespace a cgroup would add nothing, so its absence
    /// is no fallback.
    pub(crate) fn containment(&self) -> Containment {
        if self.pid_namespace {
            return Containment::new("PID namespace", Reach::Container)
                .host_death(Reach::Container)
                .atomic_placement();
        }
        let mechanism = match self.cgroups {
            Ok(_) => "guardian and cgroup",
            Err(_) => "guardian",
        };
        let containment = Containment::new(mechanism, Reach::Tree)
            .host_death(Reach::Tree)
            .atomic_placement();
        let without_cgroup = self.cgroups.as_ref().err();
        let reasons = [
            without_cgroup.map(|why| format!("no cgroup for each server: {why}")),
            identity::refusal().map(|why| {
                format!("no mark and no ledger, so `reap_orphans` finds none of its servers: {why}")
            }),
        ];
        match reasons
            .into_iter()
            .flatten()
            .reduce(|one, other| format!("{one}; {other}"))
        {
            None => containment,
            Some(reasons) => containment.fallback(reasons),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_guardian_has_its_code_or_signal() {
        let ended = |status| how_it_ended(&Ok(Some(ExitStatus::from_raw(status))));
        assert_eq!(ended(9), "was killed (signal 9)");
        assert_eq!(ended(0x80 | 6), "was killed (signal 6)");
        assert_eq!(ended(126 << 8), "ended with code 126");
        assert!(how_it_ended(&Ok(None)).contains("tracer"));
        let error = io::Error::from_raw_os_error(libc::ECHILD);
        assert!(how_it_ended(&Err(error)).contains("lost"));
    }
}
