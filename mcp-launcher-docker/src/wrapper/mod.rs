//! Containers that hide behind a wrapper: [`ContainerTracker`].

mod bridge;
mod cli;
mod inject;
mod mounts;
mod nested;
mod policy;
mod proxy;
mod respec;
mod socket;
mod terminator;
mod track;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use mcp_lifecycle_core::launch::{
    ErrorChain, LaunchContext, LaunchError, LaunchErrorKind, LaunchedServer, ReapError, ReapReport,
    Remnant, ServerIdentity, ServerLauncher, ServerSpec, TerminationSemantics, UnknownRemnant,
};

pub use policy::ReapPolicy;

use crate::control;
use crate::endpoint::{Endpoint, EndpointError};
use crate::engine::Engine;
use crate::lease::Place;
use crate::orphans::{self, Aim, First};
use terminator::TrackedTerminator;
use track::Preparation;

/// The cases in which a server gets its own way to the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ProxyMode {
    /// A proxy if there is an engine that the server would use, here or behind TCP, TLS or
    /// ssh (with the feature for that). A server that never uses it pays for one
    /// socket file, or two.
    #[default]
    Auto,
    /// Always: a launch fails where that is not possible.
    Always,
    /// Never. Only commands that are themselves `docker run` or the like are
    /// tracked, by the labels put into them.
    Never,
}

/// Makes any launcher of processes on this machine end the containers that its
/// servers start: `npm exec` that runs `docker run`, compose, docker-py.
///
/// Killing the docker CLI does not end its container. So every container that
/// a server creates is labelled on its way to the engine, and when the server
/// is proven gone, those that are tied to it are removed and proven gone as
/// well. Results are in [`Gone::swept`](mcp_lifecycle_core::launch::Gone) and
/// [`Gone::reported`](mcp_lifecycle_core::launch::Gone).
///
/// What is caught by which means, and what is not, is in
/// `docs/docker-wrappers.md`.
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
/// Servers that were launched live on, and so does the tracking of their containers: each has its
/// own owner.
#[derive(Debug)]
pub struct ContainerTracker<L> {
    launcher: L,
    settings: Settings,
    host: Mutex<Option<track::Host>>,
}

#[derive(Debug, Clone)]
struct Settings {
    reap: ReapPolicy,
    proxy: ProxyMode,
    private_mounts: bool,
    last_will: bool,
    leases: Place,
}

impl<L> ContainerTracker<L> {
    /// Tracks the containers of the servers that `launcher` launches.
    pub fn new(launcher: L) -> Self {
        Self {
            launcher,
            settings: Settings {
                reap: ReapPolicy::default(),
                proxy: ProxyMode::default(),
                private_mounts: false,
                last_will: true,
                leases: Place::OfUser,
            },
            host: Mutex::new(None),
        }
    }

    /// Sets which containers end with their server. The tied ones, by default.
    #[must_use]
    pub fn reap(mut self, policy: ReapPolicy) -> Self {
        self.settings.reap = policy;
        self
    }

    /// Sets when a server gets a way of its own to the engine.
    #[must_use]
    pub fn proxy(mut self, mode: ProxyMode) -> Self {
        self.settings.proxy = mode;
        self
    }

    /// Gives servers a mount namespace of their own in which the engine's
    /// socket is the proxy's: catches those that ignore `DOCKER_HOST` or open
    /// the socket themselves. Off by default; Linux only, needs `unshare` and
    /// `mount`, and root or user namespaces. Set-uid programs and some
    /// sandboxes do not work in a user namespace.
    #[must_use]
    pub fn private_mounts(mut self, on: bool) -> Self {
        self.settings.private_mounts = on;
        self
    }

    /// Sets whether this tracker has a *last will*: a small process that removes the containers of
    /// servers when this process dies, 1 s after it. It has one by default, where it can: on Linux, with
    /// an engine behind a Unix socket. It starts
    /// with the first container that a server creates through its proxy.
    #[must_use]
    pub fn last_will(mut self, last_will: bool) -> Self {
        self.settings.last_will = last_will;
        self
    }

    /// Sets where leases and sockets are kept, as
    /// [`lease_directory`](crate::DockerLauncherBuilder::lease_directory) does.
    #[must_use]
    pub fn lease_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.settings.leases = Place::At(directory.into());
        self
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<L: ServerLauncher> ServerLauncher for ContainerTracker<L> {
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
            Preparation::Tracked(tracked) => tracked,
            Preparation::Untracked(why) => {
                let server = self.launcher.launch(spec, context).await?;
                return Ok(match why {
                    Some(why) => server.map_terminator(|inner| {
                        Arc::new(TrackedTerminator::untracked(inner, &why))
                    }),
                    None => server,
                });
            }
        };
        // From here on a launch that fails or is dropped closes the proxy and
        // ends what came through it.
        let server = self.launcher.launch(&tracked.spec, context).await?;
        if !is_here(&server.terminator().identity()) {
            // It was given an engine that it cannot reach. It ends as it is dropped.
            let problem = "a ContainerTracker is for launchers of processes on this machine";
            return Err(failed(LaunchErrorKind::backend(
                "its containers cannot be tracked",
                problem,
            )));
        }
        let terminator = Arc::clone(server.terminator());
        // The other end is a task that waits for nothing else.
        let _ = tracked.server.send(terminator);
        let nested = tracked.nested;
        Ok(server.map_terminator(|inner| Arc::new(TrackedTerminator::new(inner, nested))))
    }

    fn unfinished(&self, server: &str) -> Vec<Remnant> {
        self.launcher.unfinished(server)
    }

    async fn reap_orphans(&self) -> Result<ReapReport, ReapError> {
        let mut report = self.launcher.reap_orphans().await?;
        let containers = self.containers_of_the_dead(Aim::End).await?;
        report.ended.extend(containers.ended);
        report.failed.extend(containers.failed);
        report.spared.extend(containers.spared);
        report.unknown.extend(containers.unknown);
        Ok(report)
    }
}

/// Containers that servers of dead hosts started, as [`ContainerTracker::find_orphans`] finds them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct FoundContainers {
    /// Those that [`reap_orphans`](ServerLauncher::reap_orphans) would end.
    pub containers: Vec<Remnant>,
    /// Engines, containers and records that could not be looked at: there may be more.
    pub unknown: Vec<UnknownRemnant>,
}

impl<L: ServerLauncher> ContainerTracker<L> {
    /// Names the containers that [`reap_orphans`](ServerLauncher::reap_orphans) would end, and ends none.
    ///
    /// # Errors
    ///
    /// [`ReapError`] when the leases of this user's hosts cannot be read. An engine that does not answer is
    /// [unknown](FoundContainers::unknown).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is changed. The search goes on to its end, and its answer is lost.
    pub async fn find_orphans(&self) -> Result<FoundContainers, ReapError> {
        let report = self.containers_of_the_dead(Aim::Name).await?;
        Ok(FoundContainers {
            containers: report.ended,
            unknown: report.unknown,
        })
    }

    async fn containers_of_the_dead(&self, aim: Aim) -> Result<ReapReport, ReapError> {
        let leases = self.settings.leases.clone();
        let reaped = control::run(async move {
            let (engine, unknown) = match Endpoint::resolve() {
                Ok(endpoint) => (Some(Engine::new(endpoint)), None),
                Err(EndpointError::NotFound(_)) => (None, None),
                Err(error) => {
                    let default = orphans::engine_at("of the docker configuration");
                    let why = ErrorChain(&error).to_string();
                    (None, Some(UnknownRemnant::new(default, why)))
                }
            };
            let reaped = orphans::reap(First::Default(engine.as_ref()), &leases, aim).await;
            reaped.map(|mut report| {
                report.unknown.extend(unknown);
                report
            })
        });
        let failed = |error| ReapError::new(self.launcher.name(), error);
        reaped.await.map_err(failed)
    }
}

/// Returns whether the server can reach a socket of this machine.
fn is_here(server: &ServerIdentity) -> bool {
    !matches!(
        server,
        ServerIdentity::Container { .. } | ServerIdentity::Remote { .. }
    )
}
