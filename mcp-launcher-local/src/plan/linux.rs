//! The containment of a server, and its fallback.

use std::time::Duration;

use mcp_lifecycle_core::launch::{Containment, LaunchErrorKind, LaunchedServer};

use crate::command::Command;
use crate::level::Isolation;
use crate::{group, guardian};

/// The containment of the next server: decided once, and then carried out.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// `None` for a process group.
    guardian: Option<guardian::Plan>,
    containment: Containment,
}

pub(crate) enum Spawned {
    Running(LaunchedServer),
    Guarded(guardian::Spawned),
}

impl Spawned {
    pub(crate) async fn started(self) -> Result<LaunchedServer, LaunchErrorKind> {
        match self {
            Self::Running(launched) => Ok(launched),
            Self::Guarded(spawned) => spawned.started().await,
        }
    }
}

impl Plan {
    /// Returns the best plan at this level. The first call tries it out, for some milliseconds.
    pub(crate) fn choose(isolation: Isolation) -> Self {
        match isolation {
            Isolation::ProcessGroup => Self::group(),
            Isolation::Guardian => Self::guardian(guardian::probe(false)),
            Isolation::PidNamespace => Self::namespace(guardian::probe(true)),
        }
    }

    /// Like [`choose`](Self::choose), but `None` if that would have to try something.
    pub(crate) fn known(isolation: Isolation) -> Option<Self> {
        match isolation {
            Isolation::ProcessGroup => Some(Self::group()),
            Isolation::Guardian => guardian::known(false).map(Self::guardian),
            Isolation::PidNamespace => guardian::known(true).map(Self::namespace),
        }
    }

    fn group() -> Self {
        Self {
            guardian: None,
            containment: group::containment(),
        }
    }

    fn guardian(found: guardian::Found) -> Self {
        match guardian::Plan::guardian(&found) {
            Ok(plan) => Self {
                containment: plan.containment(),
                guardian: Some(plan),
            },
            Err(why) => Self {
                guardian: None,
                containment: group::containment().fallback(format!("no guardian: {why}")),
            },
        }
    }

    fn namespace(found: guardian::Found) -> Self {
        let why = match guardian::Plan::namespace(&found) {
            Ok(plan) => {
                return Self {
                    containment: plan.containment(),
                    guardian: Some(plan),
                };
            }
            Err(why) => why,
        };
        let mut next = Self::guardian(found);
        let besides = next.containment.fallback.take();
        let besides = besides.map_or(String::new(), |besides| format!("; {besides}"));
        let why = format!("no PID namespace: {why}{besides}");
        next.containment = next.containment.fallback(why);
        next
    }

    /// Sets the time to end by itself once the host is gone; without effect on a process group.
    pub(crate) fn with_posthumous_grace(self, grace: Duration) -> Self {
        Self {
            guardian: self.guardian.map(|plan| plan.with_grace(grace)),
            ..self
        }
    }

    pub(crate) fn containment(&self) -> &Containment {
        &self.containment
    }

    pub(crate) fn spawn(self, command: Command) -> Result<Spawned, LaunchErrorKind> {
        match self.guardian {
            Some(plan) => guardian::spawn(command, plan, self.containment).map(Spawned::Guarded),
            None => group::spawn(&command, self.containment).map(Spawned::Running),
        }
    }
}
