//! The containment of a server, and its fallback.

use std::time::Duration;

use mcp_lifecycle_core::launch::{Containment, LaunchErrorKind, LaunchedServer};

use crate::command::Command;
#[cfg(unix)]
use crate::group as alone;
#[cfg(target_os = "linux")]
use crate::guardian;
#[cfg(windows)]
use crate::job as alone;
use crate::level::Isolation;

/// The containment of the next server: decided once, and then carried out.
#[derive(Debug, Clone)]
pub(crate) enum Plan {
    #[cfg(target_os = "linux")]
    Guardian(guardian::Plan),
    /// A process group or, on Windows, a job object.
    Alone(Containment),
}

pub(crate) struct Spawned {
    launched: LaunchedServer,
    #[cfg(target_os = "linux")]
    starting: Option<guardian::Starting>,
}

impl Spawned {
    /// Waits until the server's program runs, or has ended. Kills everything if dropped before
    /// that.
    pub(crate) async fn started(self) -> Result<LaunchedServer, LaunchErrorKind> {
        #[cfg(target_os = "linux")]
        if let Some((tree, command)) = &self.starting {
            tree.started(command).await?;
        }
        Ok(self.launched)
    }
}

#[cfg(target_os = "linux")]
impl Plan {
    /// Returns the best plan at this level. The first call tries it out, for some milliseconds.
    pub(crate) fn choose(isolation: Isolation) -> Self {
        let of = |namespace| Self::by(&guardian::probe(namespace, true), namespace);
        match isolation {
            Isolation::ProcessGroup => Self::Alone(alone::containment()),
            Isolation::Guardian => of(false),
            Isolation::PidNamespace => of(true),
        }
    }

    /// Like [`choose`](Self::choose), but `None` if that would have to try something.
    pub(crate) fn known(isolation: Isolation) -> Option<Self> {
        let of = |namespace| Some(Self::by(&guardian::known(namespace)?, namespace));
        match isolation {
            Isolation::ProcessGroup => Some(Self::Alone(alone::containment())),
            Isolation::Guardian => of(false),
            Isolation::PidNamespace => of(true),
        }
    }

    fn by(found: &guardian::Found, namespace: bool) -> Self {
        let refused = found.namespaces.as_ref().err().filter(|_| namespace);
        let refused = refused.map(|why| format!("no PID namespace: {why}"));
        match guardian::Plan::guardian(found) {
            Ok(plan) => Self::Guardian(guardian::Plan {
                pid_namespace: namespace && refused.is_none(),
                fallback: refused,
                ..plan
            }),
            Err(why) => {
                let reasons = refused.into_iter().chain([format!("no guardian: {why}")]);
                let reasons = reasons.collect::<Vec<_>>().join("; ");
                Self::Alone(alone::containment().fallback(reasons))
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl Plan {
    pub(crate) fn choose(isolation: Isolation) -> Self {
        let containment = alone::containment();
        let is_fallback = cfg!(unix) && isolation != Isolation::ProcessGroup;
        Self::Alone(match is_fallback {
            true => containment.fallback("no guardian: there is one on Linux only"),
            false => containment,
        })
    }

    pub(crate) fn known(isolation: Isolation) -> Option<Self> {
        Some(Self::choose(isolation))
    }
}

impl Plan {
    pub(crate) fn containment(&self) -> Containment {
        match self {
            #[cfg(target_os = "linux")]
            Self::Guardian(plan) => plan.containment(),
            Self::Alone(containment) => containment.clone(),
        }
    }

    /// Starts a server. `grace` is its time to end by itself once the host is gone, which only a
    /// guardian gives it.
    pub(crate) fn spawn(
        self,
        command: Command,
        grace: Duration,
    ) -> Result<Spawned, LaunchErrorKind> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Guardian(plan) => {
                let (launched, starting) =
                    guardian::spawn(command, guardian::Plan { grace, ..plan })?;
                Ok(Spawned {
                    launched,
                    starting: Some(starting),
                })
            }
            Self::Alone(containment) => {
                let _ = grace;
                Ok(Spawned {
                    launched: alone::spawn(&command, containment)?,
                    #[cfg(target_os = "linux")]
                    starting: None,
                })
            }
        }
    }
}
