//! A server whose containers are not tracked, and says so.

use std::sync::Arc;

use async_trait::async_trait;
use mcp_lifecycle_core::error::StepError;
use mcp_lifecycle_core::{
    ExitStatus, Gone, ProcessTerminator, Remnant, ServerIdentity, TerminationSemantics,
};

use super::terminator::fell_back;

#[derive(Debug)]
pub(super) struct UntrackedTerminator {
    server: Arc<dyn ProcessTerminator>,
    why: String,
}

impl UntrackedTerminator {
    pub(super) fn new(server: Arc<dyn ProcessTerminator>, why: &str) -> Self {
        let why = format!("the containers that this server starts are not tracked: {why}");
        Self { server, why }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ProcessTerminator for UntrackedTerminator {
    fn identity(&self) -> ServerIdentity {
        self.server.identity()
    }

    fn semantics(&self) -> TerminationSemantics {
        let mut semantics = self.server.semantics();
        semantics.containment = fell_back(semantics.containment, &self.why);
        semantics
    }

    async fn exited(&self) -> ExitStatus {
        self.server.exited().await
    }

    async fn request_end(&self) -> Result<(), StepError> {
        self.server.request_end().await
    }

    async fn force_end(&self) -> Result<(), StepError> {
        self.server.force_end().await
    }

    async fn gone(&self) -> Result<Gone, StepError> {
        self.server.gone().await
    }

    async fn survivors(&self) -> Result<Vec<Remnant>, StepError> {
        self.server.survivors().await
    }

    fn kill_now(&self) {
        self.server.kill_now();
    }
}
