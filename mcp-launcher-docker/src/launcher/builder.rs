use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mcp_lifecycle_core::lock::Lock;

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
    /// Sets whether images need a digest (`name@sha256:…`) or an
    /// [`image_id`](crate::ContainerOptions::image_id). They do not, by default.
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
