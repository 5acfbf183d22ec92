use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{DockerLauncher, Settings, Shared};
use crate::container::Unfinished;
use crate::endpoint::{Endpoint, EndpointError};
use crate::engine::Engine;
use crate::ledger::Place;
use crate::options::{Init, PullPolicy};

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
                ledgers: Place::OfUser,
            },
        }
    }

    /// Sets the engine's address, instead of finding it.
    pub fn endpoint(mut self, endpoint: Endpoint) -> Self {
        self.endpoint = Some(endpoint);
        self
    }

    /// Sets the image of servers without one.
    pub fn image(mut self, image: impl Into<String>) -> Self {
        self.settings.image = Some(image.into());
        self
    }

    /// Sets process 1 of servers that do not set it. The engine's init by default. Determines the
    /// launcher's semantics; a server's own setting shows in its own semantics.
    pub fn init(mut self, init: Init) -> Self {
        self.settings.init = init;
        self
    }

    /// Sets whether this launcher has a *last will*: a small process that removes the containers of
    /// servers which ignore the end of their input, 1 s after this process has died. By default it
    /// has one if possible: on Linux, with an engine behind a Unix socket. The process starts with
    /// the first launch and ends with the launcher and its containers.
    pub fn last_will(mut self, last_will: bool) -> Self {
        self.settings.last_will = last_will;
        self
    }

    /// Sets when images are pulled, unless a server sets it. When they are missing, by default.
    /// Private images are pulled with the credentials that `docker login` has stored.
    pub fn pull(mut self, policy: PullPolicy) -> Self {
        self.settings.pull = policy;
        self
    }

    /// Sets whether images need a digest (`name@sha256:…`) or an
    /// [`image_id`](crate::ContainerOptions::image_id). They do not, by default.
    pub fn require_pinned(mut self, required: bool) -> Self {
        self.settings.pinned = required;
        self
    }

    /// Sets the time limit of a pull; 10 minutes by default. It is independent of the launch's
    /// deadline.
    pub fn pull_timeout(mut self, limit: Duration) -> Self {
        self.settings.pull_timeout = limit;
        self
    }

    /// Sets the directory of ledgers. Hosts with the same directory clean up after each other; it
    /// must be private to the user and on this machine. By default it depends on the user ID
    /// (`docs/containment.md`); `MCP_LIFECYCLE_STATE_DIR` names another for tests.
    pub fn ledger_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.settings.ledgers = Place::At(directory.into());
        self
    }

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
                host: Mutex::new(None),
                unfinished: Unfinished::default(),
            }),
        })
    }
}
