//! The primitives that end a container, for the ladder in the core.

use std::sync::Arc;

use async_trait::async_trait;
use mcp_lifecycle_core::backend::known::until;
use mcp_lifecycle_core::launch::{
    Containment, Evidence, ExitStatus, Gone, ProcessTerminator, Reach, Remnant, ServerIdentity,
    StepError, TerminationSemantics,
};

use super::{Container, Known};
use crate::control::CONTROL;

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
    TerminationSemantics::all(containment.host_death(reach))
}

#[async_trait]
impl ProcessTerminator for Container {
    fn identity(&self) -> ServerIdentity {
        ServerIdentity::Container {
            id: self.id.clone(),
            name: self.name.clone(),
        }
    }

    fn semantics(&self) -> TerminationSemantics {
        semantics(self.supervised, self.is_willed())
    }

    async fn exited(&self) -> ExitStatus {
        let known = until(&self.known, |known| known.exit.is_some()).await;
        known.exit.unwrap_or(ExitStatus::Unknown)
    }

    async fn request_end(&self) -> Result<(), StepError> {
        self.signals.discard.cancel();
        let (engine, id) = (Arc::clone(&self.engine), self.id.clone());
        let asked = CONTROL.run(async move { engine.ask_to_end(&id).await });
        let failed = |error| StepError::new("ask the container to end", error);
        asked.await.map_err(failed)
    }

    async fn force_end(&self) -> Result<(), StepError> {
        self.force();
        Ok(())
    }

    async fn gone(&self) -> Result<Gone, StepError> {
        // The daemon may respond later; until then there is no proof.
        until(&self.known, |known| known.gone).await;
        Ok(Gone::proven_by(Evidence::ContainerAbsent))
    }

    async fn survivors(&self) -> Result<Vec<Remnant>, StepError> {
        let known = self.known.borrow().clone();
        match known {
            Known { gone: true, .. } => Ok(Vec::new()),
            Known {
                lost: Some(problem),
                ..
            } => Err(StepError::new("look for the container", problem)),
            Known { .. } => Ok(vec![Remnant::container(&self.id, &self.name)]),
        }
    }

    fn kill_now(&self) {
        if self.known.borrow().gone {
            return;
        }
        self.force();
        self.engine.order_removal_now(&self.id);
    }
}
