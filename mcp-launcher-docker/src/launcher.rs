#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mcp_lifecycle_core::launch::{
    BoxError, LaunchContext, LaunchError, LaunchErrorKind, LaunchedServer, ReapError, ReapReport,
    Remnant, ServerLauncher, ServerSpec, TerminationSemantics,
};
use mcp_lifecycle_core::lock::Lock;

use crate::container::{self, Job, Unfinished};
use crate::control::CONTROL;
use crate::endpoint::{Endpoint, EndpointError};
use crate::engine::{Engine, EngineError};
use crate::host::Host;
use crate::labels::{self, Mark, Role};
use crate::last_will;
use crate::ledger::Place;
use crate::options::{ContainerOptions, Defaults, Init, PullPolicy, plan};
use crate::orphans::{self, Aim, First};

const NAME: &str = "docker";

/// Launches servers as containers, through the engine's API.
///
/// See the [crate](crate) for what is guaranteed. Cheap to clone; clones count as one owner of
/// orphans.
///
/// # Drop
///
/// Servers that were launched keep running: each has its own owner.
#[derive(Clone)]
pub struct DockerLauncher {
    shared: Arc<Shared>,
}

struct Shared {
    engine: Arc<Engine>,
    settings: Settings,
    /// Taken with the first launch, so that an unused launcher writes nothing to disk.
    host: Lock<Option<Host>>,
    unfinished: Unfinished,
}

#[derive(Debug, Clone)]
struct Settings {
    image: Option<String>,
    init: Init,
    last_will: bool,
    pull: PullPolicy,
    pull_timeout: Duration,
    pinned: bool,
    ledgers: Place,
}

impl DockerLauncher {
    /// Creates a launcher for the engine that the docker CLI would use ([`Endpoint::resolve`]).
    ///
    /// # Errors
    ///
    /// [`EndpointError`] if there is none. Connects to nothing before the first launch.
    pub fn new() -> Result<Self, EndpointError> {
        Self::builder().build()
    }

    /// Returns a builder, to set more than the defaults.
    pub fn builder() -> DockerLauncherBuilder {
        DockerLauncherBuilder {
            endpoint: None,
            settings: Settings {
                image: None,
                init: Init::default(),
                last_will: true,
                pull: PullPolicy::default(),
                pull_timeout: Duration::from_secs(600),
                pinned: false,
                ledgers: Place::OfUser,
            },
        }
    }

    /// Returns the address of the engine.
    pub fn endpoint(&self) -> &Endpoint {
        &self.shared.engine.endpoint
    }

    fn job(&self, spec: &ServerSpec, context: &LaunchContext) -> Result<Job, LaunchError> {
        let settings = &self.shared.settings;
        let invalid = |e| LaunchError::new(NAME, spec, LaunchErrorKind::InvalidSpec(e));
        let options = ContainerOptions::of(spec).map_err(invalid)?;
        let host = self
            .shared
            .host()
            .map_err(|error| failed(spec, EngineError::Ledger(error)))?;
        let launch =
            mcp_lifecycle_core::backend::random::id().map_err(|error| failed(spec, error))?;
        let role = match options.init.unwrap_or(settings.init) {
            Init::Supervised => Role::Supervised,
            Init::Engine | Init::None => Role::Server,
        };
        let mark = Mark::new(&host.ledger, &launch, spec.name(), role);
        let defaults = Defaults {
            image: settings.image.as_deref(),
            init: settings.init,
            pinned: settings.pinned,
        };
        let env = |name: &std::ffi::OsStr| std::env::var_os(name);
        let plan = plan(spec, options, defaults, mark.all.clone(), env).map_err(invalid)?;
        Ok(Job {
            engine: Arc::clone(&self.shared.engine),
            host,
            mark,
            pull: plan.pull.unwrap_or(settings.pull),
            plan,
            name: labels::container_name(spec.name(), &launch),
            server: spec.name().to_owned(),
            unfinished: self.shared.unfinished.clone(),
            pull_limit: settings.pull_timeout,
            context: context.clone(),
        })
    }
}

impl Shared {
    fn host(&self) -> std::io::Result<Host> {
        let settings = &self.settings;
        let willed = settings.last_will.then_some(Role::Server);
        let host = Host::take(&self.host, &settings.ledgers, willed)?;
        let endpoint = &self.engine.endpoint;
        host.ledger.note(&endpoint.noted())?;
        host.cover(endpoint);
        Ok(host)
    }

    fn is_willed(&self) -> bool {
        let endpoint = &self.engine.endpoint;
        let host = self.host.lock();
        match &*host {
            Some(host) => host.is_willed(endpoint),
            None => {
                let is_local = endpoint.local_socket().is_some();
                self.settings.last_will && is_local && last_will::is_possible()
            }
        }
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
            ledgers,
            ..
        } = &self.shared.settings;
        let endpoint = self.endpoint();
        Some(format!(
            "{endpoint} {image:?} {init:?} {last_will} {pull:?} {pinned} {ledgers:?}"
        ))
    }

    fn semantics(&self) -> TerminationSemantics {
        let supervised = self.shared.settings.init == Init::Supervised;
        container::semantics(supervised, self.shared.is_willed())
    }

    /// Pulls the image of `spec` now, if it is missing and its policy allows. The launch, with its
    /// shorter deadline, then does not have to.
    ///
    /// # Errors
    ///
    /// [`LaunchError`]: the specification is wrong, the engine does not respond, or the pull misses
    /// its own deadline.
    ///
    /// # Cancel safety
    ///
    /// The pull continues when the future is dropped, until its own deadline. A later call, or a
    /// launch, joins it in the engine.
    async fn prepare(&self, spec: &ServerSpec, context: &LaunchContext) -> Result<(), LaunchError> {
        let job = self.job(spec, context)?;
        let prepared = CONTROL.run(async move { container::prepare(&job).await });
        prepared.await.map_err(|error| failed(spec, error))
    }

    async fn launch(
        &self,
        spec: &ServerSpec,
        context: &LaunchContext,
    ) -> Result<LaunchedServer, LaunchError> {
        let job = self.job(spec, context)?;
        let launched = CONTROL.cancellable(|cancelled| container::launch(job, cancelled));
        let launched = launched.await.map_err(|error| failed(spec, error))?;
        launched.map_err(|error| failed(spec, error))
    }

    fn unfinished(&self, server: &str) -> Vec<Remnant> {
        self.shared.unfinished.of(server)
    }

    async fn reap_orphans(&self) -> Result<ReapReport, ReapError> {
        let engine = Arc::clone(&self.shared.engine);
        let ledgers = self.shared.settings.ledgers.clone();
        let reap = async move { orphans::reap(First::Own(&engine), &ledgers, Aim::End).await };
        let reaped = CONTROL.run(reap).await;
        reaped.map_err(|error| ReapError::new(NAME, error))
    }
}

fn failed(spec: &ServerSpec, error: impl Into<BoxError>) -> LaunchError {
    let kind = LaunchErrorKind::backend("the container could not be started", error);
    LaunchError::new(NAME, spec, kind)
}

mcp_lifecycle_core::debug_fields! { DockerLauncher, it { endpoint: it.endpoint(), settings: &it.shared.settings } }

/// Builds a [`DockerLauncher`].
#[derive(Debug, Clone)]
#[must_use = "nothing is built until `build`"]
pub struct DockerLauncherBuilder {
    endpoint: Option<Endpoint>,
    settings: Settings,
}

mcp_lifecycle_core::setters! { DockerLauncherBuilder:
    /// Sets the engine's address, instead of finding it.
    endpoint(endpoint: Endpoint) |it| it.endpoint = Some(endpoint);
    /// Sets the image of servers without one.
    image(image: impl Into<String>) |it| it.settings.image = Some(image.into());
    /// Sets process 1 of servers that do not set it. The engine's init by default. Determines the
    /// launcher's semantics; a server's own setting shows in its own semantics.
    init(init: Init) |it| it.settings.init = init;
    /// Sets whether this launcher has a *last will*: a small process that removes the containers of
    /// servers which ignore the end of their input, 1 s after this process has died. By default it
    /// has one if possible: on Linux, with an engine behind a Unix socket. The process starts with
    /// the first launch and ends with the launcher and its containers.
    last_will(last_will: bool) |it| it.settings.last_will = last_will;
    /// Sets when images are pulled, unless a server sets it. When they are missing, by default.
    /// Private images are pulled with the credentials that `docker login` has stored.
    pull(policy: PullPolicy) |it| it.settings.pull = policy;
    /// Sets whether images need a digest (`name@sha256:…`) or an ID (`sha256:…`). They do not, by
    /// default.
    require_pinned(required: bool) |it| it.settings.pinned = required;
    /// Sets the time limit of a pull; 10 minutes by default. It is independent of the launch's
    /// deadline.
    pull_timeout(limit: Duration) |it| it.settings.pull_timeout = limit;
    /// Sets the directory of ledgers. Hosts with the same directory clean up after each other; it
    /// must be private to the user and on this machine. By default it depends on the user ID
    /// (`docs/containment.md`); `MCP_LIFECYCLE_STATE_DIR` names another for tests.
    ledger_directory(directory: impl Into<PathBuf>) |it| it.settings.ledgers = Place::At(directory.into());
}

impl DockerLauncherBuilder {
    /// Builds the launcher. Connects to nothing.
    ///
    /// # Errors
    ///
    /// [`EndpointError`] if no endpoint was set and none was found.
    pub fn build(self) -> Result<DockerLauncher, EndpointError> {
        let endpoint = match self.endpoint {
            Some(endpoint) => endpoint,
            None => Endpoint::resolve()?,
        };
        Ok(DockerLauncher {
            shared: Arc::new(Shared {
                engine: Arc::new(Engine::new(endpoint)),
                settings: self.settings,
                host: Lock::new(None),
                unfinished: Unfinished::default(),
            }),
        })
    }
}
