use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use crate::lock::Lock;
use futures_util::task::AtomicWaker;

use crate::terminate::callback::guarded;

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

pub(super) struct Shared<T> {
    server: Arc<str>,
    future: Lock<Option<BoxFuture<T>>>,
    aborted: AtomicBool,
    waker: AtomicWaker,
}

/// Drops an [`Abortable`]'s future, from anywhere.
pub(super) type AbortHandle<T> = Arc<Shared<T>>;

/// Runs a future until it completes or is aborted (`None`).
pub(super) struct Abortable<T>(Arc<Shared<T>>);

pub(super) fn abortable<T>(
    server: Arc<str>,
    future: impl Future<Output = T> + Send + 'static,
) -> (AbortHandle<T>, Abortable<T>) {
    let shared = Arc::new(Shared {
        server,
        future: Lock::new(Some(Box::pin(future))),
        aborted: AtomicBool::new(false),
        waker: AtomicWaker::new(),
    });
    (Arc::clone(&shared), Abortable(shared))
}

impl<T> Shared<T> {
    /// Drops the future at once, or leaves that to its poller if it is being polled.
    pub(super) fn abort(&self) {
        self.aborted.store(true, Ordering::SeqCst);
        let future = self.future.try_lock().and_then(|mut future| future.take());
        self.discard(future);
        self.waker.wake();
    }

    fn discard(&self, future: Option<BoxFuture<T>>) {
        guarded("a dropped launch", &self.server, || drop(future));
    }
}

impl<T> Future for Abortable<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let shared = &*self.0;
        shared.waker.register(cx.waker());
        let mut slot = shared.future.lock();
        let is_aborted = || shared.aborted.load(Ordering::SeqCst);
        let Some(future) = slot.as_mut().filter(|_| !is_aborted()) else {
            shared.discard(slot.take());
            return Poll::Ready(None);
        };
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => {
                shared.discard(slot.take());
                Poll::Ready(Some(output))
            }
            Poll::Pending if is_aborted() => {
                shared.discard(slot.take());
                Poll::Ready(None)
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<T> Drop for Abortable<T> {
    fn drop(&mut self) {
        // The runtime has dropped the task, so the handle must not keep the future.
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_revoked_future_is_dropped_at_once() {
        let held = Arc::new(());
        let inner = Arc::clone(&held);
        let (revoker, abortable) = abortable("s".into(), async move {
            let _held = inner;
            std::future::pending::<()>().await;
        });
        let task = tokio::spawn(abortable);
        tokio::task::yield_now().await;
        revoker.abort();
        assert_eq!(Arc::strong_count(&held), 1);
        assert_eq!(task.await.unwrap(), None);
    }

    #[tokio::test]
    async fn one_that_is_done_is_not_taken_away() {
        let (revoker, done) = abortable("s".into(), async { 7 });
        assert_eq!(done.await, Some(7));
        revoker.abort();
    }
}
