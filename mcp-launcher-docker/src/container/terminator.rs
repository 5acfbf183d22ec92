//! The primitives that end a container, for the ladder in the core.

use std::sync::Arc;

use async_trait::async_trait;
use mcp_lifecycle_core::launch::{
    Containment, Evidence, ExitStatus, Gone, ProcessTerminator, Reach, Remnant, ServerIdentity,
    StepError, TerminationSemantics,
};

use super::{Container, Known};
use crate::control::CONTROL;

#[derive(Debug)]
pub(crate) struct DockerTerminator {
    container: Arc<Container>,
}

/// Describes the containment. A container ends as a whole. After the host's death, a server that
/// ignores the end of its input is ended by a supervised init or by the last will: see
/// `docs/docker.md`.
pub(crate) fn semantics(supervised: bool, willed: bool) -> TerminationSemantics {
    let (mechanism, reach) = match (supervised, willed) {
        (true, _) => ("container with a supervised init", Reach::Container),
        (false, true) => (
            "container, removed by a process beside the host",
            Reach::Container,
        ),
        (false, false) => ("container", Reach::Nothing),
    };
    let containment = Containment::new(mechanism, Reach::Container);
    TerminationSemantics::new(containment.host_death(reach))
        .stdin_eof()
        .polite_signal()
}

impl DockerTerminator {
    pub(super) fn new(container: Arc<Container>) -> Self {
        Self { container }
    }

    async fn until(&self, done: impl FnMut(&Known) -> bool) -> Known {
        let mut known = self.container.known();
        // `self` holds the sender.
        match known.wait_for(done).await {
            Ok(known) => known.clone(),
            Err(_) => unreachable!("the container holds the sender"),
        }
    }
}

#[async_trait]
impl ProcessTerminator for DockerTerminator {
    fn identity(&self) -> ServerIdentity {
        ServerIdentity::Container {
            id: self.container.id.clone(),
            name: self.container.name.clone(),
        }
    }

    fn semantics(&self) -> TerminationSemantics {
        semantics(self.container.supervised, self.container.is_willed())
    }

    async fn exited(&self) -> ExitStatus {
        let known = self.until(|known| known.exit.is_some()).await;
        known.exit.unwrap_or(ExitStatus::Unknown)
    }

    async fn request_end(&self) -> Result<(), StepError> {
        self.container.discard_output();
        let container = Arc::clone(&self.container);
        let asked = CONTROL.run(async move { container.engine.ask_to_end(&container.id).await });
        let failed = |error| StepError::new("ask the container to end", error);
        asked.await.map_err(failed)
    }

    async fn force_end(&self) -> Result<(), StepError> {
        self.container.force();
        Ok(())
    }

    async fn gone(&self) -> Result<Gone, StepError> {
        // The daemon may respond later; until then there is no proof.
        self.until(|known| known.gone).await;
        Ok(Gone::proven_by(Evidence::ContainerAbsent))
    }

    async fn survivors(&self) -> Result<Vec<Remnant>, StepError> {
        let known = self.container.known().borrow().clone();
        match known {
            Known { gone: true, .. } => Ok(Vec::new()),
            Known {
                lost: Some(problem),
                ..
            } => Err(StepError::new("look for the container", problem)),
            Known { .. } => Ok(vec![Remnant::container(
                &self.container.id,
                &self.container.name,
            )]),
        }
    }

    fn kill_now(&self) {
        if self.container.known().borrow().gone {
            return;
        }
        self.container.force();
        self.container.engine.order_removal_now(&self.container.id);
    }
}
