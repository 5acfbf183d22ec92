use super::{Attempt, ServerHandle, TerminationOutcome, known};
use crate::launch::ExitStatus;
use crate::terminate::{EndReason, TerminateError};

impl ServerHandle {
    /// Returns a future of the last attempt's outcome, without requesting one. `None` if its task
    /// was lost. Keeps no server alive.
    pub(crate) fn outcome(
        &self,
    ) -> impl Future<Output = Option<TerminationOutcome>> + Send + use<> {
        let outcome = self.shared.run.lock().outcome.clone();
        async move { known(outcome?).await }
    }

    pub(crate) fn lost(&self, reason: EndReason) -> TerminateError {
        self.shared.task_lost(reason)
    }

    /// Completes when the launcher can prove that the server is gone; never if it cannot.
    #[cfg(feature = "fleet")]
    pub(crate) async fn provable(&self) {
        if self.shared.terminator.gone().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Attempt {
    pub(crate) async fn exited(&self) -> ExitStatus {
        self.shared.terminator.exited().await
    }
}
