//! [`LocalLauncher`]: servers as processes on this machine.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use mcp_lifecycle_core::launch::{
    Containment, ErrorChain, Guarantee, LaunchContext, LaunchError, LaunchErrorKind,
    LaunchedServer, Reach, ReapError, ReapReport, ServerLauncher, ServerSpec, TerminationSemantics,
};

use crate::blocking::blocking;
use crate::command::Command;
#[cfg(unix)]
use crate::group as alone;
#[cfg(target_os = "linux")]
use crate::guardian;
#[cfg(windows)]
use crate::job as alone;
use crate::level::Isolation;
use crate::{orphans, sys};
use mcp_tree::resolve::resolve;

/// Starts servers as processes on this machine.
///
/// The program is looked up in the `PATH` that the server will see. It starts with the environment
/// that the specification allows, and with no descriptor of the host but its three streams.
///
/// Each server gets a [guardian](Isolation::Guardian) on Linux, a job object on Windows, and a
/// process group elsewhere. [`semantics`](ServerLauncher::semantics) states what that guarantees,
/// or why it is not available.
///
/// All launchers of a host process share two threads and one epoll descriptor. They install no
/// signal handler, do not change the disposition of SIGCHLD, and wait for no process but their own.
///
/// # Drop
///
/// Does not affect running servers: each has its own owner.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct LocalLauncher {
    isolation: Isolation,
    required: Vec<Guarantee>,
    posthumous_grace: Duration,
    hardened: bool,
    writable: Option<Vec<PathBuf>>,
    direct: bool,
}

const NAME: &str = "local";

/// The greatest age of npm's last look at the registry.
const DIRECT_AGE: Duration = Duration::from_secs(24 * 3600);

impl LocalLauncher {
    /// A launcher with the best containment this machine has.
    pub fn new() -> Self {
        Self::default()
    }

    /// Describes a launcher.
    pub fn builder() -> LocalLauncherBuilder {
        LocalLauncherBuilder::default()
    }

    /// Finds out what this machine allows, and returns the containment of the next launch.
    ///
    /// Starts up to three processes that end at once, about half a millisecond each, on a thread
    /// that may block. The answer is kept for the life of the process.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: if dropped, the probe finishes and its answer is kept.
    pub async fn probe(&self) -> Containment {
        let launcher = self.clone();
        let found = blocking(move || {
            let not_here = |error: io::Error| unknown().fallback(error.to_string());
            sys::own_servers().map_or_else(not_here, |()| Plan::choose(&launcher).containment())
        });
        let found = found.await;
        found.unwrap_or_else(|why| unknown().fallback(ErrorChain(&why).to_string()))
    }
}

/// Describes a [`LocalLauncher`].
#[derive(Debug, Clone, Default)]
#[must_use = "nothing is made until `build`"]
pub struct LocalLauncherBuilder {
    launcher: LocalLauncher,
}

mcp_lifecycle_core::setters! { LocalLauncherBuilder:
    /// Sets the mechanism that holds the processes of a server together.
    isolation(isolation: Isolation) |it| it.launcher.isolation = isolation;
    /// Sets how long a server may outlive the host, so that it can save its data.
    ///
    /// Zero by default: when the host is gone (killed, aborted, exited without drops), the server
    /// is killed at once. Otherwise its guardian sends SIGTERM to the tree, and SIGKILL when this
    /// time is over. A living host ends its servers by its own deadlines. A process group has no
    /// guardian, so nothing acts on the host's end; a job object ends with its host at once.
    posthumous_grace(grace: Duration) |it| it.launcher.posthumous_grace = grace;
    /// Sets whether servers are kept from their host and their guardian: a server and all its
    /// descendants can signal and trace only each other, cannot leave their cgroup nor change it,
    /// and get no new privileges. `false` by default.
    ///
    /// Linux 6.12; elsewhere launches fail with [`LaunchErrorKind::Containment`]. For a server,
    /// `sudo`, other setuid programs, mounts, and writes to what is created in `/` after its start
    /// do not work.
    hardened(hardened: bool) |it| it.launcher.hardened = hardened;
    /// Sets what servers and all their descendants may write: these directories and files, with all
    /// below them, from the host's directory, and a few devices. Reading is free. By default, all is
    /// writable.
    ///
    /// Linux 6.2; elsewhere launches fail with [`LaunchErrorKind::Containment`], and where a path is
    /// missing. `docs/containment.md` in the repository says what this does not reach.
    writable(paths: impl IntoIterator<Item = impl Into<PathBuf>>) |it| {
        it.launcher.writable = Some(paths.into_iter().map(Into::into).collect());
    };
    /// Requires a guarantee: where this machine cannot give it, launches fail with
    /// [`LaunchErrorKind::Containment`] instead of falling back.
    require(guarantee: Guarantee) |it| it.launcher.required.push(guarantee);
    /// Sets whether a server behind `npx`, `npm exec`, `uvx` or `uv tool run` is executed as its
    /// runner has executed it within a day, so that the runner does not stay. `false` by default.
    ///
    /// `mcp-contain` records what a runner executes, if it is in the server's `PATH`; otherwise the
    /// records of earlier starts are used. Without effect on Windows.
    direct(direct: bool) |it| it.launcher.direct = direct;
}

impl LocalLauncherBuilder {
    /// Makes the launcher.
    pub fn build(self) -> LocalLauncher {
        self.launcher
    }
}

#[async_trait]
impl ServerLauncher for LocalLauncher {
    fn name(&self) -> &str {
        NAME
    }

    fn fingerprint(&self) -> Option<String> {
        Some(format!("{self:?}"))
    }

    /// Reads known answers; never starts a process, never blocks. Before the first launch or
    /// [`probe`](LocalLauncher::probe), the mechanism is "not known yet", which promises nothing.
    fn semantics(&self) -> TerminationSemantics {
        let plan = Plan::known(self);
        let containment = plan.map_or_else(unknown, |plan| plan.containment());
        TerminationSemantics::all(containment)
    }

    /// Looks the program up and starts it, on a thread that may block, as a network mount does.
    async fn launch(
        &self,
        spec: &ServerSpec,
        _context: &LaunchContext,
    ) -> Result<LaunchedServer, LaunchError> {
        let fail = |kind| LaunchError::new(NAME, spec, kind);
        let launcher = self.clone();
        let owned = spec.clone();
        // If this future is dropped, so is the result, which kills the server.
        let spawned = blocking(move || {
            sys::own_servers().map_err(|error| {
                LaunchErrorKind::backend("servers cannot be launched from here", error)
            })?;
            let plan = Plan::choose(&launcher);
            let hardened = launcher.hardened.then_some(Guarantee::Hardened);
            let limited = launcher.writable.as_ref();
            let limited = limited.map(|_| Guarantee::LimitedWrites);
            let asked = launcher.required.into_iter().chain(hardened).chain(limited);
            for guarantee in asked {
                plan.containment()
                    .require(guarantee)
                    .map_err(LaunchErrorKind::Containment)?;
            }
            let mut command = Command::prepare(&owned)?;
            if launcher.direct {
                let recorder = command.cwd.as_deref().unwrap_or(Path::new("."));
                let recorder = resolve(OsStr::new("mcp-contain"), &command.env, recorder).ok();
                // It could not write its record.
                let recorder = recorder.filter(|_| launcher.writable.is_none());
                mcp_tree::direct::replace(&mut command, DIRECT_AGE, recorder.as_deref());
            }
            match plan {
                #[cfg(target_os = "linux")]
                Plan::Guardian(mut plan) => {
                    plan.grace = launcher.posthumous_grace;
                    guardian::spawn(command, plan).map(Spawned::Starting)
                }
                Plan::Alone(containment) => {
                    // Nothing acts once the host is gone: there is no grace.
                    alone::spawn(&command, containment).map(Spawned::Running)
                }
            }
        });
        match spawned.await.and_then(|spawned| spawned).map_err(fail)? {
            #[cfg(target_os = "linux")]
            Spawned::Starting((launched, tree, command)) => {
                tree.started(&command).await.map_err(fail)?;
                Ok(launched)
            }
            Spawned::Running(launched) => Ok(launched),
        }
    }

    async fn reap_orphans(&self) -> Result<ReapReport, ReapError> {
        sys::not_forked().map_err(|error| ReapError::new(NAME, error))?;
        let reaped = blocking(orphans::reap).await;
        let reaped = reaped.map_err(|lost| ReapError::new(NAME, lost))?;
        reaped.map_err(|error| ReapError::new(NAME, error))
    }
}

fn unknown() -> Containment {
    Containment::new("not known yet", Reach::Nothing)
        .fallback("the first launch finds out what this machine allows")
}

enum Spawned {
    #[cfg(target_os = "linux")]
    Starting(guardian::Starting),
    Running(LaunchedServer),
}

/// The containment of the next server: decided once, and then carried out.
enum Plan {
    #[cfg(target_os = "linux")]
    Guardian(guardian::Plan),
    /// A process group or, on Windows, a job object.
    Alone(Containment),
}

#[cfg(target_os = "linux")]
impl Plan {
    /// Returns the best plan at this level. The first call tries it out, for some milliseconds.
    fn choose(launcher: &LocalLauncher) -> Self {
        let with_namespace = match launcher.isolation {
            Isolation::ProcessGroup => return Self::Alone(alone::containment()),
            isolation => isolation == Isolation::PidNamespace,
        };
        let best = guardian::Plan::best(with_namespace, true);
        Self::of(best, launcher)
    }

    /// Like [`choose`](Self::choose), but `None` if that would have to try something.
    fn known(launcher: &LocalLauncher) -> Option<Self> {
        let with_namespace = match launcher.isolation {
            Isolation::ProcessGroup => return Some(Self::Alone(alone::containment())),
            isolation => isolation == Isolation::PidNamespace,
        };
        let best = guardian::Plan::known(with_namespace)?;
        Some(Self::of(best, launcher))
    }

    fn of(best: Result<guardian::Plan, guardian::Why>, launcher: &LocalLauncher) -> Self {
        match best {
            Ok(mut plan) => {
                plan.hardened = launcher.hardened;
                plan.writable.clone_from(&launcher.writable);
                Self::Guardian(plan)
            }
            Err(why) => Self::Alone(alone::containment().fallback(format!("no guardian: {why}"))),
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl Plan {
    fn choose(launcher: &LocalLauncher) -> Self {
        let containment = alone::containment();
        let is_fallback = cfg!(unix) && launcher.isolation != Isolation::ProcessGroup;
        Self::Alone(match is_fallback {
            true => containment.fallback("no guardian: there is one on Linux only"),
            false => containment,
        })
    }

    fn known(launcher: &LocalLauncher) -> Option<Self> {
        Some(Self::choose(launcher))
    }
}

impl Plan {
    fn containment(&self) -> Containment {
        match self {
            #[cfg(target_os = "linux")]
            Self::Guardian(plan) => plan.containment(),
            Self::Alone(containment) => containment.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_made_alike_are_interchangeable() {
        let plain = LocalLauncher::new().fingerprint();
        assert_eq!(plain, LocalLauncher::new().fingerprint());
        let group = LocalLauncher::builder()
            .isolation(Isolation::ProcessGroup)
            .build();
        assert_ne!(plain, group.fingerprint());
        let strict = LocalLauncher::builder()
            .require(Guarantee::AtomicPlacement)
            .build();
        assert_ne!(plain, strict.fingerprint());
        let patient = LocalLauncher::builder()
            .posthumous_grace(Duration::from_secs(2))
            .build();
        assert_ne!(plain, patient.fingerprint());
        let direct = LocalLauncher::builder().direct(true).build();
        assert_ne!(plain, direct.fingerprint());
        let hardened = LocalLauncher::builder().hardened(true).build();
        assert_ne!(plain, hardened.fingerprint());
        let limited = LocalLauncher::builder().writable(["/tmp"]).build();
        assert_ne!(plain, limited.fingerprint());
    }
}
