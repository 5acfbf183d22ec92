use std::sync::Arc;

use tokio::sync::oneshot;

use super::{Attempt, Follower, Request, ServerHandle, TerminationOutcome, known};
use crate::launch::ExitStatus;
use crate::terminate::{EndReason, TerminateError};

impl ServerHandle {
    /// Lets a task watch over the server: it alone runs the end, when it is asked or by itself.
    pub(crate) fn watch(
        &self,
        follower: Arc<dyn Follower>,
    ) -> (Attempt, oneshot::Receiver<Request>) {
        let (watcher, request) = oneshot::channel();
        let _ = self.shared.follower.set(follower);
        let mut run = self.shared.run.lock();
        run.watcher = Some(watcher);
        (self.shared.attempt(&mut run).0, request)
    }

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
