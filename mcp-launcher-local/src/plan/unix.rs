//! How a server is held together, and what happens where that is not available: a guardian, or a process group.

use std::io;
use std::time::Duration;

use mcp_lifecycle_core::launch::{Containment, LaunchErrorKind, LaunchedServer};

use crate::command::Command;
pub(crate) use crate::guardian::Spares;
use crate::level::{Isolation, Limits};
use crate::{group, guardian};

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

    /// The best that this machine allows without asking for more, found out by who launches nothing.
    #[cfg(target_os = "linux")]
    pub(crate) fn look() -> Self {
        Self::guardian(guardian::look_at_machine())
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

    /// The same within these limits.
    ///
    /// # Errors
    ///
    /// There are some, and nobody here would keep them.
    pub(crate) fn with_limits(self, limits: Limits) -> Result<Self, LaunchErrorKind> {
        match limits == Limits::default() {
            true => Ok(self),
            false => Err(LaunchErrorKind::backend(
                "limits of memory and processes are kept by a job object, which only Windows has",
                io::Error::from(io::ErrorKind::Unsupported),
            )),
        }
    }

    /// The containment that a server gets by this plan.
    pub(crate) fn containment(&self) -> &Containment {
        &self.containment
    }

    /// Makes spare guardians for this plan, and returns how many there are. Blocks.
    pub(crate) fn warm_up(&self, spares: &Spares) -> usize {
        let plan = self.guardian.as_ref();
        plan.map_or(0, |plan| spares.warm_up(plan))
    }

    /// Starts a server by this plan, with a spare guardian where there is one.
    pub(crate) fn spawn(
        self,
        command: Command,
        spares: Option<&Spares>,
    ) -> Result<Spawned, LaunchErrorKind> {
        match self.guardian {
            Some(plan) => {
                guardian::spawn(command, plan, self.containment, spares).map(Spawned::Guarded)
            }
            None => group::spawn(&command, self.containment).map(Spawned::Running),
        }
    }
}
