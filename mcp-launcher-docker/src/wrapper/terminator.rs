use std::sync::Arc;

use async_trait::async_trait;
use mcp_lifecycle_core::launch::{
    Containment, Evidence, ExitStatus, Gone, ProcessTerminator, Remnant, ServerIdentity, StepError,
    TerminationSemantics,
};

use super::nested::Nested;

#[derive(Debug)]
pub(super) struct TrackedTerminator {
    server: Arc<dyn ProcessTerminator>,
    nested: Result<Arc<Nested>, String>,
}

impl TrackedTerminator {
    pub(super) fn new(server: Arc<dyn ProcessTerminator>, nested: Arc<Nested>) -> Self {
        let nested = Ok(nested);
        Self { server, nested }
    }

    pub(super) fn untracked(server: Arc<dyn ProcessTerminator>, why: &str) -> Self {
        let why = format!("the containers that this server starts are not tracked: {why}");
        let nested = Err(why);
        Self { server, nested }
    }

    fn force(&self) {
        if let Ok(nested) = &self.nested {
            nested.force();
        }
    }
}

fn fell_back(containment: Containment, why: &str) -> Containment {
    let why = match &containment.fallback {
        Some(other) => format!("{other}; {why}"),
        None => why.to_owned(),
    };
    containment.fallback(why)
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ProcessTerminator for TrackedTerminator {
    fn identity(&self) -> ServerIdentity {
        self.server.identity()
    }

    fn semantics(&self) -> TerminationSemantics {
        let mut semantics = self.server.semantics();
        let why = match &self.nested {
            Ok(nested) => nested.survives_the_host(),
            Err(why) => Some(&**why),
        };
        if let Some(why) = why {
            semantics.containment = fell_back(semantics.containment, why);
        }
        semantics
    }

    async fn exited(&self) -> ExitStatus {
        self.server.exited().await
    }

    async fn request_end(&self) -> Result<(), StepError> {
        // Its client forwards the signal to an attached container. A second signal would be one too
        // many: docker's CLI gives up at the third.
        self.server.request_end().await
    }

    async fn force_end(&self) -> Result<(), StepError> {
        let forced = self.server.force_end().await;
        self.force();
        forced
    }

    async fn gone(&self) -> Result<Gone, StepError> {
        let mut gone = self.server.gone().await?;
        let Ok(nested) = &self.nested else {
            return Ok(gone);
        };
        let nested = nested.done().await;
        if !nested.ended.is_empty() {
            gone = gone.evidence(Evidence::ContainerAbsent).swept(nested.ended);
        }
        gone.reported.extend(nested.kept);
        Ok(gone)
    }

    async fn survivors(&self) -> Result<Vec<Remnant>, StepError> {
        let mut all = self.server.survivors().await?;
        if let Ok(nested) = &self.nested {
            let nested = nested.survivors().await;
            all.extend(nested.map_err(|error| StepError::new("look for its containers", error))?);
        }
        Ok(all)
    }

    fn kill_now(&self) {
        self.server.kill_now();
        self.force();
    }
}
