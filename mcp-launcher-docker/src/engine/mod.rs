//! The connection to one daemon. All of bollard that the crate uses is below.

mod connect;
mod container;
mod create;
mod credentials;
mod error;
mod image;
mod last_order;
mod quiet;
mod who;

use std::time::Duration;

use bollard::Docker;
use tokio::sync::OnceCell;
use tokio::time::timeout;

pub(crate) use container::{Attached, Condition, Found, OomStream, State, WaitStream};
pub(crate) use create::CreateError;
pub(crate) use error::{EngineError, Meaning};
pub(crate) use image::{ImageFacts, Progress, Pull, PullEvent, Pulls};

use crate::endpoint::Endpoint;

/// How long a daemon may take to say its version.
const HELLO_LIMIT: Duration = Duration::from_secs(5);

/// How long a daemon may take to begin to answer anything else. A container
/// that is stuck in the daemon must not hold us for bollard's two minutes.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// How long a create or a start may take: the daemon mounts and runs.
const SLOW_ANSWER_LIMIT: Duration = Duration::from_secs(120);

/// One daemon. Used on the control thread only: bollard's connections belong
/// to the runtime that opened them.
#[derive(Debug)]
pub(crate) struct Engine {
    endpoint: Endpoint,
    docker: OnceCell<Docker>,
    who: who::Who,
    pub(crate) pulls: Pulls,
}

impl Engine {
    pub(crate) fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            docker: OnceCell::new(),
            who: who::Who::default(),
            pulls: Pulls::default(),
        }
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The client, with the version of the API negotiated: without that,
    /// bollard speaks whatever version it was generated from.
    async fn docker(&self, limit: Duration) -> Result<Docker, EngineError> {
        if self.docker.get().is_none() {
            self.docker.get_or_try_init(|| self.connect()).await?;
            self.remember().await;
        }
        let docker = self.docker.get_or_try_init(|| self.connect()).await?;
        Ok(docker.clone().with_timeout(limit))
    }

    async fn connect(&self) -> Result<Docker, EngineError> {
        let docker = connect::open(&self.endpoint)?;
        match timeout(HELLO_LIMIT, docker.negotiate_version()).await {
            Ok(answer) => answer.map_err(|error| self.error(error)),
            Err(_) => Err(EngineError::Silent {
                endpoint: self.endpoint.clone(),
            }),
        }
    }

    fn error(&self, error: bollard::errors::Error) -> EngineError {
        EngineError::new(&self.endpoint, error)
    }
}
