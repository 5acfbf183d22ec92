//! Runs work on a thread that may block.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use mcp_lifecycle_core::launch::LaunchErrorKind;
use mcp_lifecycle_core::lock::Lock;

/// Runs `work` on a thread that may block. It fails where the runtime has no thread for it or is
/// being shut down, or where `work` panicked, which has then undone what it did.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, LaunchErrorKind> {
    const NO_THREAD: &str = "the runtime could not start a thread that may block";
    // Where the system gives it no thread, Tokio panics and keeps the task in its queue.
    let work = Arc::new(Lock::new(Some(work)));
    let take = |work: &Lock<Option<_>>| work.lock().take();
    let queued = Arc::clone(&work);
    let run = move || take(&queued).map(|work| work());
    let spawned = match catch_unwind(AssertUnwindSafe(|| tokio::task::spawn_blocking(run))) {
        Ok(spawned) => spawned,
        Err(panic) => {
            drop(take(&work));
            return Err(LaunchErrorKind::backend(NO_THREAD, message(&*panic)));
        }
    };
    let lost = match spawned.await {
        Ok(Some(done)) => return Ok(done),
        Ok(None) => return Err(LaunchErrorKind::backend(NO_THREAD, "it was given up")),
        Err(lost) => lost,
    };
    Err(match lost.try_into_panic() {
        Ok(panic) => LaunchErrorKind::backend("the launcher panicked", message(&*panic)),
        Err(lost) => LaunchErrorKind::backend("the runtime is being shut down", lost),
    })
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "it did not say why".to_owned())
}
