//! Whether a server is gone is asked again after whatever may change the answer.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use mcp_lifecycle_core::launch::{
    Containment, Evidence, ExitStatus, Gone, ProcessTerminator, Reach, Remnant, ServerIdentity,
    StepError, TerminationSemantics,
};
use mcp_lifecycle_core::terminate::{EndReason, ServerHandle, TerminationPolicy};

/// A server of which only its last resort can be heard.
#[derive(Debug, Default)]
struct Remote {
    /// Whether an order to force is never acknowledged; it fails otherwise.
    hangs: bool,
    /// Whether a second question is never answered.
    mute: bool,
    asked: AtomicUsize,
    killed: AtomicBool,
}

fn lost() -> StepError {
    StepError::new("ask", io::Error::other("the connection is lost"))
}

#[async_trait]
impl ProcessTerminator for Remote {
    fn identity(&self) -> ServerIdentity {
        ServerIdentity::Other("remote".to_owned())
    }
    fn semantics(&self) -> TerminationSemantics {
        TerminationSemantics::new(Containment::new("remote", Reach::Tree))
            .stdin_eof()
            .polite_signal()
    }
    async fn exited(&self) -> ExitStatus {
        std::future::pending().await
    }
    async fn request_end(&self) -> Result<(), StepError> {
        Err(lost())
    }
    async fn force_end(&self) -> Result<(), StepError> {
        if self.hangs {
            std::future::pending::<()>().await;
        }
        Err(lost())
    }
    async fn gone(&self) -> Result<Gone, StepError> {
        if self.killed.load(Ordering::SeqCst) {
            return Ok(Gone::proven_by(Evidence::Reaped));
        }
        if self.asked.fetch_add(1, Ordering::SeqCst) > 0 && self.mute {
            std::future::pending::<()>().await;
        }
        Err(lost())
    }
    async fn survivors(&self) -> Result<Vec<Remnant>, StepError> {
        Ok(Vec::new())
    }
    fn kill_now(&self) {
        self.killed.store(!self.mute, Ordering::SeqCst);
    }
}

fn handle(remote: Remote) -> ServerHandle {
    ServerHandle::new("s", Box::new(tokio::io::sink()), Arc::new(remote)).0
}

#[tokio::test(start_paused = true)]
async fn after_the_synchronous_kill_too() {
    for hangs in [false, true] {
        let handle = handle(Remote {
            hangs,
            ..Remote::default()
        });
        let policy = TerminationPolicy::immediate();
        handle
            .terminate(&policy, EndReason::Shutdown)
            .await
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn and_what_was_answered_last_is_said_though_no_answer_follows() {
    let handle = handle(Remote {
        mute: true,
        ..Remote::default()
    });
    let policy = TerminationPolicy::immediate();
    let error = handle.terminate(&policy, EndReason::Shutdown).await;
    let text = error.unwrap_err().to_string();
    assert!(text.contains("the connection is lost"), "{text}");
}
