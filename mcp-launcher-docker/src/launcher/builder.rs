//! The builder of a `DockerLauncher`.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use super::{DockerLauncher, Settings, Shared};
use crate::container::Unfinished;
use crate::endpoint::{Endpoint, EndpointError};
use crate::engine::Engine;
use crate::lease::Place;
use crate::options::{Init, PullPolicy};
use crate::progress::PullObserver;

/// Builds a [`DockerLauncher`].
#[derive(Debug, Clone)]
#[must_use = "nothing is built until `build`"]
pub struct DockerLauncherBuilder {
    endpoint: Option<Endpoint>,
    settings: Settings,
}

impl DockerLauncherBuilder {
    pub(super) fn new() -> Self {
        Self {
            endpoint: None,
            settings: Settings {
                image: None,
                init: Init::default(),
                last_will: true,
                pull: PullPolicy::default(),
                pull_timeout: Duration::from_secs(600),
                pinned: false,
                credentials: true,
                observer: Arc::new(()),
                leases: Place::OfUser,
            },
        }
    }

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

    /// Sets whether this launcher has a *last will*: a small process that removes
    /// the containers of servers that ignore the end of their input, 1 s after
    /// this process has died. By default it has one, where it can: on Linux, with
    /// an engine behind a Unix socket. The process starts with the first launch
    /// and ends with the launcher and its containers.
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

    /// Sets whether images are refused that are named by a tag only: each needs a
    /// digest (`name@sha256:…`) or an
    /// [`image_id`](crate::ContainerOptions::image_id). They are not, by default.
    pub fn require_pinned(mut self, required: bool) -> Self {
        self.settings.pinned = required;
        self
    }

    /// Sets whether pulls use what this user has stored for the registry, as the
    /// docker CLI does: in its `config.json`, by a helper program named there, or
    /// in Podman's `auth.json`. They do, by default. A helper has a minute.
    pub fn registry_credentials(mut self, used: bool) -> Self {
        self.settings.credentials = used;
        self
    }

    /// Sets how long a pull may take; 10 minutes by default. It is not bounded
    /// by the deadline of the launch that started it.
    pub fn pull_timeout(mut self, limit: Duration) -> Self {
        self.settings.pull_timeout = limit;
        self
    }

    /// Sets who is told how pulls go; a closure will do.
    pub fn pull_observer(mut self, observer: impl PullObserver) -> Self {
        self.settings.observer = Arc::new(observer);
        self
    }

    /// Sets where leases are kept. Hosts that use the same directory clean up
    /// after each other; it must be private to the user and on this machine.
    /// By default it follows from the user's number (`docs/orphans.md`), whatever
    /// the environment says; `MCP_LIFECYCLE_STATE_DIR` names another for tests.
    pub fn lease_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.settings.leases = Place::At(directory.into());
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
                unfinished: Unfinished::default(),
            }),
        })
    }
}
