mod cli;
mod nested;
mod proxy;
mod socket;
mod terminator;
mod track;

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use mcp_lifecycle_core::launch::{
    ErrorChain, LaunchContext, LaunchError, LaunchErrorKind, LaunchedServer, ReapError, ReapReport,
    Remnant, ServerIdentity, ServerLauncher, ServerSpec, TerminationSemantics, UnknownRemnant,
};
use mcp_lifecycle_core::lock::Lock;

use crate::control::CONTROL;
use crate::endpoint::{Endpoint, EndpointError};
use crate::engine::Engine;
use crate::host::Host;
use crate::ledger::Place;
use crate::orphans::{self, Aim, First};
use terminator::TrackedTerminator;
pub use track::{Tracked, Tracking};

/// The containers that end with the server that started them.
///
/// Only containers that *this* server created through the tracker count, never the user's or
/// another program's, whatever their name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ReapPolicy {
    /// Containers that end with their client: created with `--rm`, or with the client's stdin
    /// attached. The others stay and are reported, since some servers exist to create lasting
    /// containers.
    #[default]
    Tied,
    /// All.
    All,
    /// None; all are reported.
    Report,
}

impl ReapPolicy {
    fn ends(self, tied: bool) -> bool {
        self == Self::All || (self == Self::Tied && tied)
    }
}

/// Makes any launcher of local processes end the containers that its servers start: `npm exec` that
/// runs `docker run`, compose, docker-py.
///
/// Killing the docker CLI does not end its container. So every container that a server creates is
/// labelled on its way to the engine, and when the server is proven gone, its tied containers are
/// removed and proven gone as well. Results are in
/// [`Gone::swept`](mcp_lifecycle_core::launch::Gone) and
/// [`Gone::reported`](mcp_lifecycle_core::launch::Gone). `docs/docker.md` lists what is
/// caught and what is not.
///
/// ```no_run
/// # use std::sync::Arc;
/// # use mcp_lifecycle_core::ServerLauncher;
/// use mcp_launcher_docker::{ContainerTracker, ReapPolicy};
///
/// # fn example(local: Arc<dyn ServerLauncher>) {
/// let launcher = ContainerTracker::new(local).reap(ReapPolicy::Tied);
/// # }
/// ```
///
/// # Drop
///
/// Servers that were launched keep running, and so does the tracking of their containers.
#[derive(Debug)]
#[must_use = "a tracker does nothing by itself"]
pub struct ContainerTracker<L = Arc<dyn ServerLauncher>> {
    launcher: L,
    settings: Settings,
    host: Lock<Option<Host>>,
}

#[derive(Debug, Clone)]
struct Settings {
    reap: ReapPolicy,
    required: bool,
    private_mounts: bool,
    last_will: bool,
    ledgers: Place,
}

mcp_lifecycle_core::setters! { ContainerTracker<L>:
    /// Sets which containers end with their server. Tied ones by default.
    reap(policy: ReapPolicy) |it| it.settings.reap = policy;
    /// Sets whether a launch fails where its server can have no proxy to the engine. By default such
    /// a server runs without. An engine is local, or behind TCP, TLS or ssh (with that feature); an
    /// unused proxy costs a socket file or two.
    require_proxy(required: bool) |it| it.settings.required = required;
    /// Gives servers their own mount namespace, in which the proxy replaces the engine's socket.
    /// This catches servers that ignore `DOCKER_HOST` or open the socket themselves. Off by
    /// default; Linux only; needs `unshare` and `mount`, and root or user namespaces. Set-uid
    /// programs and some sandboxes do not work in a user namespace.
    private_mounts(on: bool) |it| it.settings.private_mounts = on;
    /// Sets whether this tracker has a *last will*: a small process that removes the containers of
    /// servers 1 s after this process has died. By default it has one if possible: on Linux, with
    /// an engine behind a Unix socket. It starts with the first container that a server creates
    /// through its proxy.
    last_will(last_will: bool) |it| it.settings.last_will = last_will;
    /// Sets the directory of ledgers and sockets, like
    /// [`ledger_directory`](crate::DockerLauncherBuilder::ledger_directory).
    ledger_directory(directory: impl Into<PathBuf>) |it| it.settings.ledgers = Place::At(directory.into());
}

impl ContainerTracker {
    /// Tracks the containers of the servers that `launcher` launches.
    pub fn new(launcher: Arc<dyn ServerLauncher>) -> Self {
        Self::around(launcher)
    }
}

impl ContainerTracker<()> {
    /// Tracks the containers of servers that the caller starts by itself.
    pub fn without_launcher() -> Self {
        Self::around(())
    }
}

impl<L> ContainerTracker<L> {
    fn around(launcher: L) -> Self {
        Self {
            launcher,
            settings: Settings {
                reap: ReapPolicy::default(),
                required: false,
                private_mounts: false,
                last_will: true,
                ledgers: Place::OfUser,
            },
            host: Lock::new(None),
        }
    }

    /// Tracks the containers of a server that the caller starts and ends by itself: the
    /// specification to start instead, and the end of its containers.
    ///
    /// # Errors
    ///
    /// The server would create containers that cannot be tracked, and must not start.
    pub fn track(&self, spec: &ServerSpec) -> Result<Tracking, LaunchErrorKind> {
        track::prepare(&self.settings, &self.host, spec)
    }

    /// Ends the containers of dead hosts' servers, and nothing else of these: the part of
    /// [`reap_orphans`](ServerLauncher::reap_orphans) that is not the launcher's.
    ///
    /// # Errors
    ///
    /// The same as of [`find_orphans`](Self::find_orphans).
    ///
    /// # Cancel safety
    ///
    /// The search goes on when this is dropped, and its result is lost.
    pub async fn reap_containers(&self) -> Result<ReapReport, ReapError> {
        self.containers_of_the_dead(Aim::End).await
    }

    /// Lists the containers that [`reap_orphans`](ServerLauncher::reap_orphans) would end, without
    /// ending them, and the engines, containers and records that could not be examined: there may
    /// be more.
    ///
    /// # Errors
    ///
    /// [`ReapError`] if the ledgers of this user's hosts cannot be read.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing changes. The search continues, and its result is lost.
    pub async fn find_orphans(&self) -> Result<(Vec<Remnant>, Vec<UnknownRemnant>), ReapError> {
        let report = self.containers_of_the_dead(Aim::Name).await?;
        Ok((report.ended, report.unknown))
    }

    /// Forgets the records of dead hosts about the engine at `url` (as in a remnant) and no other:
    /// their containers there are not searched for any more. For an engine that the user knows will
    /// not return. Returns the number of hosts. Blocks for some milliseconds.
    pub fn forget_engine(&self, url: &str) -> usize {
        orphans::forget(url, &self.settings.ledgers)
    }

    async fn containers_of_the_dead(&self, aim: Aim) -> Result<ReapReport, ReapError> {
        let ledgers = self.settings.ledgers.clone();
        let reaped = CONTROL.run(async move {
            let (engine, unknown) = match Endpoint::resolve() {
                Ok(endpoint) => (Some(Engine::new(endpoint)), None),
                Err(EndpointError::NotFound(_)) => (None, None),
                Err(error) => {
                    let default = orphans::engine_at("of the docker configuration");
                    let why = ErrorChain(&error).to_string();
                    (None, Some(UnknownRemnant::new(default, why)))
                }
            };
            let reaped = orphans::reap(First::Default(engine.as_ref()), &ledgers, aim).await;
            reaped.map(|mut report| {
                report.unknown.extend(unknown);
                report
            })
        });
        let failed = |error| ReapError::new("docker", error);
        reaped.await.map_err(failed)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ServerLauncher for ContainerTracker {
    fn name(&self) -> &str {
        self.launcher.name()
    }

    fn fingerprint(&self) -> Option<String> {
        let inner = self.launcher.fingerprint()?;
        Some(format!("{inner} {:?}", self.settings))
    }

    fn semantics(&self) -> TerminationSemantics {
        self.launcher.semantics()
    }

    async fn prepare(&self, spec: &ServerSpec, context: &LaunchContext) -> Result<(), LaunchError> {
        self.launcher.prepare(spec, context).await
    }

    async fn launch(
        &self,
        spec: &ServerSpec,
        context: &LaunchContext,
    ) -> Result<LaunchedServer, LaunchError> {
        let failed = |kind| LaunchError::new(self.launcher.name(), spec, kind);
        let tracked = match track::prepare(&self.settings, &self.host, spec).map_err(failed)? {
            Tracking::Tracked(tracked) => tracked,
            Tracking::Untracked(why) => {
                let server = self.launcher.launch(spec, context).await?;
                return Ok(match why {
                    Some(why) => server.map_terminator(|inner| {
                        Arc::new(TrackedTerminator::untracked(inner, &why))
                    }),
                    None => server,
                });
            }
        };
        // From here on a failed or dropped launch closes the proxy and ends the containers created
        // through it.
        let server = self.launcher.launch(&tracked.spec, context).await?;
        let identity = server.terminator().identity();
        if let ServerIdentity::Container { .. } | ServerIdentity::Remote { .. } = identity {
            // It cannot reach the engine that it was given. Dropping it ends it.
            let problem = "a ContainerTracker is for launchers of processes on this machine";
            return Err(failed(LaunchErrorKind::backend(
                "its containers cannot be tracked",
                problem,
            )));
        }
        let terminator = Arc::clone(server.terminator());
        let gone = async move {
            while terminator.gone().await.is_err() {
                tokio::time::sleep(nested::PAUSE).await;
            }
        };
        // The receiver is a task that waits only for this.
        let _ = tracked.server.send(Box::pin(gone));
        let nested = tracked.nested;
        Ok(server.map_terminator(|inner| Arc::new(TrackedTerminator::new(inner, nested))))
    }

    fn unfinished(&self, server: &str) -> Vec<Remnant> {
        self.launcher.unfinished(server)
    }

    async fn reap_orphans(&self) -> Result<ReapReport, ReapError> {
        let mut report = self.launcher.reap_orphans().await?;
        let containers = self.reap_containers().await?;
        report.ended.extend(containers.ended);
        report.failed.extend(containers.failed);
        report.spared.extend(containers.spared);
        report.unknown.extend(containers.unknown);
        Ok(report)
    }
}
