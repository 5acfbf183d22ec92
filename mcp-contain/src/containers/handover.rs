//! The launcher below the companion's tracker. Starts and ends nothing: the wrapper and the
//! guardian do.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use mcp_lifecycle_core::launch::{
    Containment, Evidence, ExitStatus, Gone, LaunchContext, LaunchError, LaunchedServer,
    ProcessTerminator, Reach, ReapError, ReapReport, Remnant, ServerIdentity, ServerLauncher,
    ServerSpec, StepError, TerminationSemantics,
};
use tokio::sync::watch;

/// Launcher that passes a server to the wrapper.
#[derive(Debug)]
pub(super) struct Handover {
    spec: Mutex<Option<ServerSpec>>,
    end: End,
}

/// The end of the server, reported by the wrapper's side.
#[derive(Debug, Clone)]
pub(super) struct End(watch::Receiver<bool>);

impl End {
    /// Completes when nothing of the server is left, or the reporter is gone.
    async fn come(&self) {
        let mut end = self.0.clone();
        // Without a sender no report can follow.
        let _ = end.wait_for(|is_gone| *is_gone).await;
    }
}

impl Handover {
    /// Creates the launcher; `is_gone` reports that nothing of its server is left.
    pub(super) fn new(is_gone: watch::Receiver<bool>) -> Self {
        Self {
            spec: Mutex::default(),
            end: End(is_gone),
        }
    }

    pub(super) fn spec(&self) -> Option<ServerSpec> {
        let spec = self.spec.lock().unwrap_or_else(PoisonError::into_inner);
        spec.clone()
    }
}

fn semantics() -> TerminationSemantics {
    TerminationSemantics::new(Containment::new("mcp-contain", Reach::Tree))
}

#[async_trait]
impl ServerLauncher for Handover {
    fn name(&self) -> &str {
        "mcp-contain"
    }

    fn semantics(&self) -> TerminationSemantics {
        semantics()
    }

    async fn launch(
        &self,
        spec: &ServerSpec,
        _: &LaunchContext,
    ) -> Result<LaunchedServer, LaunchError> {
        let mut wanted = self.spec.lock().unwrap_or_else(PoisonError::into_inner);
        *wanted = Some(spec.clone());
        let end = Arc::new(self.end.clone());
        Ok(LaunchedServer::new(
            tokio::io::sink(),
            tokio::io::empty(),
            None,
            end,
        ))
    }

    async fn reap_orphans(&self) -> Result<ReapReport, ReapError> {
        Ok(ReapReport::new())
    }
}

#[async_trait]
impl ProcessTerminator for End {
    fn identity(&self) -> ServerIdentity {
        ServerIdentity::Other("the server of this wrapper".to_owned())
    }

    fn semantics(&self) -> TerminationSemantics {
        semantics()
    }

    async fn exited(&self) -> ExitStatus {
        self.come().await;
        ExitStatus::Unknown
    }

    async fn request_end(&self) -> Result<(), StepError> {
        Ok(())
    }

    async fn force_end(&self) -> Result<(), StepError> {
        Ok(())
    }

    async fn gone(&self) -> Result<Gone, StepError> {
        self.come().await;
        Ok(Gone::proven_by(Evidence::Other(
            "its shim and its guardian have ended".into(),
        )))
    }

    async fn survivors(&self) -> Result<Vec<Remnant>, StepError> {
        Ok(Vec::new())
    }

    fn kill_now(&self) {}
}
