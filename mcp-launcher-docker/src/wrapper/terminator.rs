//! Ends a server, and then the containers that it started.

use std::sync::Arc;

use async_trait::async_trait;
use mcp_lifecycle_core::error::StepError;
use mcp_lifecycle_core::{
    Containment, Evidence, ExitStatus, Gone, ProcessTerminator, Remnant, ServerIdentity,
    TerminationSemantics,
};

use super::nested::Nested;

#[derive(Debug)]
pub(super) struct TrackedTerminator {
    server: Arc<dyn ProcessTerminator>,
    nested: Arc<Nested>,
}

impl TrackedTerminator {
    pub(super) fn new(server: Arc<dyn ProcessTerminator>, nested: Arc<Nested>) -> Self {
        Self { server, nested }
    }
}

/// The containment, with one more thing that it does not reach.
pub(super) fn fell_back(containment: Containment, why: &str) -> Containment {
    let why = match &containment.fallback {
        Some(other) => format!("{other}; {why}"),
        None => why.to_owned(),
    };
    containment.fell_back(why)
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ProcessTerminator for TrackedTerminator {
    fn identity(&self) -> ServerIdentity {
        self.server.identity()
    }

    fn semantics(&self) -> TerminationSemantics {
        let mut semantics = self.server.semantics();
        if let Some(why) = self.nested.survives_the_host() {
            semantics.containment = fell_back(semantics.containment, why);
        }
        semantics
    }

    async fn exited(&self) -> ExitStatus {
        self.server.exited().await
    }

    async fn request_end(&self) -> Result<(), StepError> {
        // Its client passes the signal on to a container that is attached. A
        // second one, of ours, would be one too many: docker's CLI gives up at
        // the third.
        self.server.request_end().await
    }

    async fn force_end(&self) -> Result<(), StepError> {
        let forced = self.server.force_end().await;
        self.nested.force();
        forced
    }

    async fn gone(&self) -> Result<Gone, StepError> {
        let mut gone = self.server.gone().await?;
        let nested = self.nested.done().await;
        if !nested.ended.is_empty() {
            gone = gone
                .and_by(Evidence::ContainerAbsent)
                .with_swept(nested.ended);
        }
        gone.reported.extend(nested.kept);
        Ok(gone)
    }

    async fn survivors(&self) -> Result<Vec<Remnant>, StepError> {
        let mut all = self.server.survivors().await?;
        let nested = self.nested.survivors().await;
        all.extend(nested.map_err(|error| StepError::new("look for its containers", error))?);
        Ok(all)
    }

    fn kill_now(&self) {
        self.server.kill_now();
        self.nested.force();
    }
}
