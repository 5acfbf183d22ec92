//! The choice of the mechanism that holds the processes of a server together, and what happens
//! where it is not available.

use std::time::Duration;

use mcp_lifecycle_core::launch::{Containment, LaunchErrorKind, LaunchedServer};

use crate::command::Command;
use crate::{group, guardian};

/// The mechanism that holds the processes of a server together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Isolation {
    /// A guardian: a small process between host and server that ends every
    /// descendant, also those that left the process group, and also when the
    /// host is killed. Linux; elsewhere, and where the system refuses it, a
    /// process group, which the launcher's semantics then say.
    #[default]
    Guardian,
    /// A guardian, and a PID namespace for the server: the kernel ends all of
    /// it when the guardian ends, even when that is killed. Linux, where the
    /// user may make one; elsewhere as [`Guardian`](Self::Guardian).
    ///
    /// The server sees pids of its own, while `/proc` still shows the host's:
    /// what looks itself up there (`ps`, pid files) is led astray.
    PidNamespace,
    /// A process group alone: reaches whoever stays in it, and nothing when
    /// the host is killed.
    ProcessGroup,
}

/// How the next server is going to be held together: decided once, and then
/// carried out.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// `None` for a process group.
    guardian: Option<guardian::Plan>,
    containment: Containment,
}

/// A server whose start is not confirmed yet.
pub(crate) enum Spawned {
    Running(LaunchedServer),
    Guarded(guardian::Spawned),
}

impl Spawned {
    /// Waits until the program runs. Dropped before that, it is killed.
    pub(crate) async fn started(self) -> Result<LaunchedServer, LaunchErrorKind> {
        match self {
            Self::Running(launched) => Ok(launched),
            Self::Guarded(spawned) => spawned.started().await,
        }
    }
}

impl Plan {
    /// The best that this machine allows at this level. The first call finds
    /// out what that is, by trying, which blocks for some milliseconds.
    pub(crate) fn choose(isolation: Isolation) -> Self {
        match isolation {
            Isolation::ProcessGroup => Self::group(),
            Isolation::Guardian => Self::guardian(guardian::probe(false)),
            Isolation::PidNamespace => Self::namespace(guardian::probe(true)),
        }
    }

    /// As [`choose`](Self::choose), if everything it needs to know is known.
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
                containment: group::containment().with_fallback(format!("no guardian: {why}")),
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
        next.containment = next.containment.with_fallback(why);
        next
    }

    /// The same, with so long to end by itself once the host is gone, which a process group does not notice.
    pub(crate) fn with_posthumous_grace(self, grace: Duration) -> Self {
        Self {
            guardian: self.guardian.map(|plan| plan.with_grace(grace)),
            ..self
        }
    }

    /// What a server gets by this plan.
    pub(crate) fn containment(&self) -> &Containment {
        &self.containment
    }

    /// Starts a server by this plan.
    pub(crate) fn spawn(self, command: Command) -> Result<Spawned, LaunchErrorKind> {
        match self.guardian {
            Some(plan) => guardian::spawn(command, plan, self.containment).map(Spawned::Guarded),
            None => group::spawn(&command, self.containment).map(Spawned::Running),
        }
    }
}
