//! [`DockerLauncher`].

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use mcp_lifecycle_core::error::{BoxError, LaunchError, LaunchErrorKind, ReapError};
use mcp_lifecycle_core::{
    LaunchedServer, ReapReport, ServerLauncher, ServerSpec, TerminationSemantics,
};

use crate::container::{self, Job};
use crate::endpoint::{Endpoint, EndpointError};
use crate::engine::{Engine, EngineError, PullEvent};
use crate::labels::{self, Role};
use crate::last_will::{self, LastWill};
use crate::lease::{self, Lease};
use crate::options::{ContainerOptions, Defaults, Init, PullPolicy, plan};
use crate::orphans::{self, First};
use crate::progress::{PullObserver, PullProgress};
use crate::{control, random};

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
    /// As well.
    will: OnceLock<Option<Arc<LastWill>>>,
}

/// Builds a [`DockerLauncher`].
#[derive(Debug, Clone)]
#[must_use = "nothing is built until `build`"]
pub struct DockerLauncherBuilder {
    endpoint: Option<Endpoint>,
    settings: Settings,
}

#[derive(Clone)]
struct Settings {
    image: Option<String>,
    init: Init,
    last_will: bool,
    pull: PullPolicy,
    pull_timeout: Duration,
    observer: Arc<dyn PullObserver>,
    lease_directory: PathBuf,
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
        DockerLauncherBuilder {
            endpoint: None,
            settings: Settings {
                image: None,
                init: Init::default(),
                last_will: true,
                pull: PullPolicy::default(),
                pull_timeout: Duration::from_secs(600),
                observer: Arc::new(()),
                lease_directory: lease::default_directory(),
            },
        }
    }

    /// Where the engine is.
    pub fn endpoint(&self) -> &Endpoint {
        self.shared.engine.endpoint()
    }

    /// Pulls the image of `spec` now, if its policy says so and it is missing,
    /// so that the launch does not have to, whose deadline is a shorter one.
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
    pub async fn prepare(&self, spec: &ServerSpec) -> Result<(), LaunchError> {
        let job = self.job(spec)?;
        let task = control::spawn(async move { container::prepare(&job).await });
        let outcome = match task {
            Ok(task) => task.await,
            Err(error) => return Err(failed(spec, EngineError::from(error))),
        };
        match outcome {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(failed(spec, error)),
            Err(error) => Err(failed(spec, error)),
        }
    }

    fn job(&self, spec: &ServerSpec) -> Result<Job, LaunchError> {
        let settings = &self.shared.settings;
        let invalid = |e| LaunchError::new(NAME, spec, LaunchErrorKind::InvalidSpec(e));
        let options = ContainerOptions::of(spec).map_err(invalid)?;
        let lease = self
            .shared
            .lease()
            .map_err(|error| failed(spec, EngineError::Lease(error)))?;
        let launch = random::id().map_err(|error| failed(spec, error))?;
        let owner = labels::of_launch(&lease, &launch, spec.name(), Role::Server);
        let defaults = Defaults {
            image: settings.image.as_deref(),
            init: settings.init,
        };
        let env = |name: &std::ffi::OsStr| std::env::var_os(name);
        let plan = plan(spec, options, defaults, owner, env).map_err(invalid)?;
        let observer = Arc::clone(&settings.observer);
        let server = spec.name().to_owned();
        Ok(Job {
            engine: Arc::clone(&self.shared.engine),
            lease,
            pull: plan.pull.unwrap_or(settings.pull),
            plan,
            local_directory: self.shared.local_directory(),
            will: self.shared.will(),
            name: labels::container_name(spec.name(), &launch),
            pull_limit: settings.pull_timeout,
            progress: Arc::new(move |image: &str, event: PullEvent| {
                observer.on_progress(&PullProgress::new(&server, image, event));
            }),
        })
    }
}

impl Shared {
    /// The lease directory, where the engine sees the same files.
    fn local_directory(&self) -> Option<PathBuf> {
        let is_here = self.engine.endpoint().local_socket().is_some();
        is_here.then(|| self.settings.lease_directory.clone())
    }

    /// Whether there is one, or will be as far as anybody knows.
    fn has_will(&self) -> bool {
        match self.will.get() {
            Some(will) => will.as_ref().is_some_and(|will| will.is_alive()),
            None => {
                let is_here = self.engine.endpoint().local_socket().is_some();
                self.settings.last_will && is_here && last_will::is_possible()
            }
        }
    }

    /// Begins with the first launch. Where there is none, containers say so in
    /// their semantics.
    fn will(&self) -> Option<Arc<LastWill>> {
        let begin = || {
            let socket = self.engine.endpoint().local_socket();
            let socket = socket.filter(|_| self.settings.last_will)?;
            match LastWill::begin(&self.settings.lease_directory, socket) {
                Ok(will) => Some(Arc::new(will)),
                Err(error) => {
                    tracing::debug!(%error, "nobody removes containers when this host dies");
                    None
                }
            }
        };
        self.will.get_or_init(begin).clone()
    }

    fn lease(&self) -> std::io::Result<Arc<Lease>> {
        let mut lease = self.lease.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lease) = &*lease {
            lease.refresh();
            return Ok(Arc::clone(lease));
        }
        let new = Arc::new(Lease::take(&self.settings.lease_directory)?);
        new.look_after()?;
        new.note(&self.engine.endpoint().to_string())?;
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
            lease_directory,
            ..
        } = &self.shared.settings;
        let endpoint = self.endpoint();
        Some(format!(
            "{endpoint} {image:?} {init:?} {last_will} {pull:?} {lease_directory:?}"
        ))
    }

    fn semantics(&self) -> TerminationSemantics {
        let supervised = self.shared.settings.init == Init::Supervised;
        container::semantics(supervised, self.shared.has_will())
    }

    async fn launch(&self, spec: &ServerSpec) -> Result<LaunchedServer, LaunchError> {
        let job = self.job(spec)?;
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

    async fn reap_orphans(&self) -> Result<ReapReport, ReapError> {
        let engine = Arc::clone(&self.shared.engine);
        let directory = self.shared.settings.lease_directory.clone();
        let reap =
            control::spawn(async move { orphans::reap(First::Own(&engine), &directory).await });
        let failed = |error: BoxError| ReapError::new(NAME, error);
        let reap = reap.map_err(|error| failed(error.into()))?;
        match reap.await {
            Ok(Ok(report)) => Ok(report),
            Ok(Err(error)) => Err(failed(error.into())),
            Err(error) => Err(failed(error.into())),
        }
    }
}

impl DockerLauncherBuilder {
    /// Sets where the engine is, instead of finding it.
    pub fn endpoint(mut self, endpoint: Endpoint) -> Self {
        self.endpoint = Some(endpoint);
        self
    }

    /// Sets the image of servers whose specification names none.
    pub fn image(mut self, image: impl Into<String>) -> Self {
        self.settings.image = Some(image.into());
        self
    }

    /// Sets process 1 of servers whose specification does not say. The
    /// engine's init, by default. What the launcher declares follows from
    /// this; what one server says for itself is in its own semantics.
    pub fn init(mut self, init: Init) -> Self {
        self.settings.init = init;
        self
    }

    /// Sets whether a small process beside this one removes the containers of
    /// stubborn servers when this one dies, 1 s after it; it does, by default,
    /// where it can: on Linux, with an engine behind a Unix socket. It starts
    /// with the first launch and ends with the launcher and its containers.
    pub fn last_will(mut self, last_will: bool) -> Self {
        self.settings.last_will = last_will;
        self
    }

    /// Sets when images are pulled, where a server does not say. When they
    /// are missing, by default.
    pub fn pull(mut self, policy: PullPolicy) -> Self {
        self.settings.pull = policy;
        self
    }

    /// Sets how long a pull may take; 10 minutes by default. It is not bounded
    /// by the deadline of the launch that started it.
    pub fn pull_timeout(mut self, limit: Duration) -> Self {
        self.settings.pull_timeout = limit;
        self
    }

    /// Sets who is told how pulls go.
    pub fn pull_observer(mut self, observer: Arc<dyn PullObserver>) -> Self {
        self.settings.observer = observer;
        self
    }

    /// Sets where leases are kept. Hosts that use the same directory clean up
    /// after each other; it must be private to the user and on this machine.
    /// By default it is in `XDG_RUNTIME_DIR`, or the temporary directory.
    pub fn lease_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.settings.lease_directory = directory.into();
        self
    }

    /// Builds the launcher. Nothing is connected to.
    ///
    /// # Errors
    ///
    /// [`EndpointError`] when no endpoint was set and none was found.
    pub fn build(self) -> Result<DockerLauncher, EndpointError> {
        let endpoint = match self.endpoint {
            Some(endpoint) => endpoint,
            None => Endpoint::resolve()?,
        };
        Ok(DockerLauncher {
            shared: Arc::new(Shared {
                engine: Arc::new(Engine::new(endpoint)),
                settings: self.settings,
                lease: Mutex::new(None),
                will: OnceLock::new(),
            }),
        })
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
            .field("lease_directory", &self.lease_directory)
            .finish_non_exhaustive()
    }
}
