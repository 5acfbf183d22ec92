//! [`DockerLauncher`].

mod builder;
#[cfg(all(test, unix))]
mod tests;

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use mcp_lifecycle_core::launch::{
    BoxError, LaunchContext, LaunchError, LaunchErrorKind, LaunchedServer, ReapError, ReapReport,
    Remnant, ServerLauncher, ServerSpec, TerminationSemantics,
};

pub use builder::DockerLauncherBuilder;

use crate::container::{self, Job, Unfinished};
use crate::control;
use crate::endpoint::{Endpoint, EndpointError};
use crate::engine::{Engine, EngineError};
use crate::labels::{self, Role};
use crate::last_will::{self, LastWill};
use crate::lease::{Lease, Place};
use crate::options::{ContainerOptions, Defaults, Init, PullPolicy, plan};
use crate::orphans::{self, Aim, First};
use crate::progress::{self, PullObserver};

const NAME: &str = "docker";

/// Launches servers as containers, through the engine's API.
///
/// See the [crate](crate) for what is guaranteed. Cheap to clone; clones are
/// one owner, as far as orphans are concerned.
///
/// # Drop
///
/// Servers that were launched live on: each has its own owner.
#[derive(Clone)]
pub struct DockerLauncher {
    shared: Arc<Shared>,
}

struct Shared {
    engine: Arc<Engine>,
    settings: Settings,
    /// Taken with the first launch: a launcher that is never used leaves
    /// nothing on the disk.
    lease: Mutex<Option<Arc<Lease>>>,
    /// As well; `None` where there never will be one.
    will: OnceLock<Option<Arc<LastWill>>>,
    /// Launches that have not come to a server.
    unfinished: Unfinished,
}

#[derive(Clone)]
struct Settings {
    image: Option<String>,
    init: Init,
    last_will: bool,
    pull: PullPolicy,
    pull_timeout: Duration,
    pinned: bool,
    credentials: bool,
    observer: Arc<dyn PullObserver>,
    leases: Place,
}

impl DockerLauncher {
    /// A launcher for the engine that the docker CLI would use
    /// ([`Endpoint::resolve`]).
    ///
    /// # Errors
    ///
    /// [`EndpointError`] when there is none. Nothing is connected to before
    /// the first launch.
    pub fn new() -> Result<Self, EndpointError> {
        Self::builder().build()
    }

    /// Sets more than the defaults.
    pub fn builder() -> DockerLauncherBuilder {
        DockerLauncherBuilder::new()
    }

    /// The address of the engine.
    pub fn endpoint(&self) -> &Endpoint {
        self.shared.engine.endpoint()
    }

    fn job(&self, spec: &ServerSpec, context: &LaunchContext) -> Result<Job, LaunchError> {
        let settings = &self.shared.settings;
        let invalid = |e| LaunchError::new(NAME, spec, LaunchErrorKind::InvalidSpec(e));
        let options = ContainerOptions::of(spec).map_err(invalid)?;
        let lease = self
            .shared
            .lease()
            .map_err(|error| failed(spec, EngineError::Lease(error)))?;
        let launch = mcp_lifecycle_host::random::id().map_err(|error| failed(spec, error))?;
        let owner = labels::of_launch(&lease, &launch, spec.name(), Role::Server);
        let defaults = Defaults {
            image: settings.image.as_deref(),
            init: settings.init,
            pinned: settings.pinned,
        };
        let env = |name: &std::ffi::OsStr| std::env::var_os(name);
        let plan = plan(spec, options, defaults, owner, env).map_err(invalid)?;
        let observer = Arc::clone(&settings.observer);
        Ok(Job {
            engine: Arc::clone(&self.shared.engine),
            lease,
            pull: plan.pull.unwrap_or(settings.pull),
            plan,
            is_local: self.shared.is_local(),
            will: self.shared.will(),
            name: labels::container_name(spec.name(), &launch),
            server: spec.name().to_owned(),
            unfinished: self.shared.unfinished.clone(),
            pull_limit: settings.pull_timeout,
            credentials: settings.credentials,
            progress: progress::beside(observer, context.clone(), spec.name()),
        })
    }
}

impl Shared {
    /// True where engine and host see the same files.
    fn is_local(&self) -> bool {
        self.engine.endpoint().local_socket().is_some()
    }

    /// Returns whether there is one, or will be as far as anybody knows.
    fn has_will(&self) -> bool {
        match self.will.get() {
            Some(will) => will.as_ref().is_some_and(|will| will.is_alive()),
            None => self.settings.last_will && self.is_local() && last_will::is_possible(),
        }
    }

    /// Begins with the first launch. Where there is none, containers say so in
    /// their semantics.
    fn will(&self) -> Option<Arc<LastWill>> {
        if let Some(will) = self.will.get() {
            return will.clone();
        }
        let socket = self.engine.endpoint().local_socket();
        let socket = socket.filter(|_| self.settings.last_will);
        let begun = match socket.map(LastWill::begin).transpose() {
            Ok(will) => will.map(Arc::new),
            Err(error) if error.kind() == std::io::ErrorKind::Unsupported => {
                tracing::debug!(%error, "nobody removes containers when this host dies");
                None
            }
            Err(error) => {
                tracing::warn!(%error, "nobody removes this container when this host dies");
                return None;
            }
        };
        self.will.get_or_init(|| begun).clone()
    }

    fn lease(&self) -> std::io::Result<Arc<Lease>> {
        let mut lease = self.lease.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lease) = &*lease {
            lease.refresh();
            return Ok(Arc::clone(lease));
        }
        let new = Arc::new(Lease::take(&self.settings.leases)?);
        new.look_after()?;
        new.note(&self.engine.endpoint().noted())?;
        *lease = Some(Arc::clone(&new));
        Ok(new)
    }
}

#[async_trait]
impl ServerLauncher for DockerLauncher {
    fn name(&self) -> &str {
        NAME
    }

    fn fingerprint(&self) -> Option<String> {
        let Settings {
            image,
            init,
            last_will,
            pull,
            pinned,
            leases,
            ..
        } = &self.shared.settings;
        let endpoint = self.endpoint();
        Some(format!(
            "{endpoint} {image:?} {init:?} {last_will} {pull:?} {pinned} {leases:?}"
        ))
    }

    fn semantics(&self) -> TerminationSemantics {
        let supervised = self.shared.settings.init == Init::Supervised;
        container::semantics(supervised, self.shared.has_will())
    }

    /// Pulls the image of `spec` now, if its policy says so and it is missing, so that
    /// the launch does not have to, whose deadline is a shorter one.
    ///
    /// # Errors
    ///
    /// [`LaunchError`]: the specification is wrong, the engine does not answer,
    /// or the image cannot be had within the pull's own deadline.
    ///
    /// # Cancel safety
    ///
    /// The pull goes on when the future is dropped, until its own deadline. A
    /// later call, or a launch, joins it.
    async fn prepare(&self, spec: &ServerSpec, context: &LaunchContext) -> Result<(), LaunchError> {
        let job = self.job(spec, context)?;
        let prepared = control::run(async move { container::prepare(&job).await });
        prepared.await.map_err(|error| failed(spec, error))
    }

    async fn launch(
        &self,
        spec: &ServerSpec,
        context: &LaunchContext,
    ) -> Result<LaunchedServer, LaunchError> {
        let job = self.job(spec, context)?;
        let (cancel, outcome) =
            container::launch(job).map_err(|error| failed(spec, EngineError::from(error)))?;
        let outcome = outcome.await;
        drop(cancel);
        match outcome {
            Ok(Ok(server)) => Ok(server),
            Ok(Err(error)) => Err(failed(spec, error)),
            Err(_) => Err(failed(spec, EngineError::Cancelled)),
        }
    }

    fn unfinished(&self, server: &str) -> Vec<Remnant> {
        self.shared.unfinished.of(server)
    }

    async fn reap_orphans(&self) -> Result<ReapReport, ReapError> {
        let engine = Arc::clone(&self.shared.engine);
        let leases = self.shared.settings.leases.clone();
        let reap = async move { orphans::reap(First::Own(&engine), &leases, Aim::End).await };
        let reaped = control::run(reap).await;
        reaped.map_err(|error| ReapError::new(NAME, error))
    }
}

fn failed(spec: &ServerSpec, error: impl Into<BoxError>) -> LaunchError {
    let kind = LaunchErrorKind::backend("the container could not be started", error);
    LaunchError::new(NAME, spec, kind)
}

impl fmt::Debug for DockerLauncher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DockerLauncher")
            .field("endpoint", self.endpoint())
            .field("settings", &self.shared.settings)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("image", &self.image)
            .field("init", &self.init)
            .field("pull", &self.pull)
            .field("pull_timeout", &self.pull_timeout)
            .field("leases", &self.leases)
            .finish_non_exhaustive()
    }
}
