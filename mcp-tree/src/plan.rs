//! The containment of one server by a guardian, by what this machine allows.

use std::path::Path;
use std::time::Duration;

use mcp_lifecycle_core::launch::{Containment, Reach};

use crate::identity;
use crate::probe::{self, Found, Why};

/// Finds out which containment a wrapped server has on this machine, without a record. Blocks for
/// some milliseconds.
pub fn containment() -> Containment {
    match Plan::guardian(&probe::probe(false, false)) {
        Ok(plan) => plan.containment(),
        Err(why) => {
            Containment::new("nothing", Reach::Nothing).fallback(format!("no guardian: {why}"))
        }
    }
}

/// A guardian, and what it has beside.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The directory below which it gets a cgroup of its own, or why it gets none.
    pub cgroups: Result<&'static Path, Why>,
    pub pid_namespace: bool,
    /// The time that a server has to end by itself once the host is gone.
    pub grace: Duration,
    /// Why it is not the plan that was asked for.
    pub fallback: Option<String>,
}

impl Plan {
    pub fn guardian(found: &Found) -> Result<Self, Why> {
        found.guardian.clone()?;
        Ok(Self {
            cgroups: found.cgroups.clone(),
            pid_namespace: false,
            grace: Duration::ZERO,
            fallback: None,
        })
    }

    /// Returns the promise of this plan. In a namespace a cgroup would add nothing, so its absence
    /// is no fallback.
    pub fn containment(&self) -> Containment {
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
            self.fallback.clone(),
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
