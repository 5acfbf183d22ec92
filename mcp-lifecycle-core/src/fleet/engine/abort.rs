//! A future that somebody else can drop.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;

use crate::terminate::callback::guarded;

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

struct Shared<T> {
    server: Arc<str>,
    future: Mutex<Option<BoxFuture<T>>>,
    revoked: AtomicBool,
    waker: AtomicWaker,
}

/// Drops a [`Revocable`]'s future, from anywhere.
pub(super) struct Revoker<T>(Arc<Shared<T>>);

/// Runs a future until it is done or revoked; the latter gives `None`.
pub(super) struct Revocable<T>(Arc<Shared<T>>);

/// Makes the launch of a server revocable.
pub(super) fn revocable<T>(
    server: Arc<str>,
    future: impl Future<Output = T> + Send + 'static,
) -> (Revoker<T>, Revocable<T>) {
    let shared = Arc::new(Shared {
        server,
        future: Mutex::new(Some(Box::pin(future))),
        revoked: AtomicBool::new(false),
        waker: AtomicWaker::new(),
    });
    (Revoker(Arc::clone(&shared)), Revocable(shared))
}

impl<T> Shared<T> {
    /// Drops the future, which is a launcher's. A panic in that is logged, and keeps
    /// nothing from what follows.
    fn discard(&self, future: Option<BoxFuture<T>>) {
        guarded("a dropped launch", &self.server, || drop(future));
    }
}

impl<T> Clone for Revoker<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Revoker<T> {
    /// Drops the future: at once and here, unless it is being polled this very
    /// moment, in which case whoever polls it drops it.
    pub(super) fn revoke(&self) {
        self.0.revoked.store(true, Ordering::SeqCst);
        let future = match self.0.future.try_lock() {
            Ok(mut future) => future.take(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().take(),
            Err(TryLockError::WouldBlock) => None,
        };
        self.0.discard(future);
        self.0.waker.wake();
    }
}

impl<T> Future for Revocable<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let shared = &*self.0;
        shared.waker.register(cx.waker());
        let mut slot = shared.future.lock().unwrap_or_else(PoisonError::into_inner);
        let is_revoked = || shared.revoked.load(Ordering::SeqCst);
        let Some(future) = slot.as_mut().filter(|_| !is_revoked()) else {
            shared.discard(slot.take());
            return Poll::Ready(None);
        };
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => {
                shared.discard(slot.take());
                Poll::Ready(Some(output))
            }
            Poll::Pending if is_revoked() => {
                shared.discard(slot.take());
                Poll::Ready(None)
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<T> Drop for Revocable<T> {
    fn drop(&mut self) {
        // The runtime has dropped the task; the revoker must not keep it.
        Revoker(Arc::clone(&self.0)).revoke();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_revoked_future_is_dropped_at_once() {
        let held = Arc::new(());
        let inner = Arc::clone(&held);
        let (revoker, revocable) = revocable("s".into(), async move {
            let _held = inner;
            std::future::pending::<()>().await;
        });
        let task = tokio::spawn(revocable);
        tokio::task::yield_now().await;
        revoker.revoke();
        assert_eq!(Arc::strong_count(&held), 1);
        assert_eq!(task.await.unwrap(), None);
    }

    #[tokio::test]
    async fn one_that_is_done_is_not_taken_away() {
        let (revoker, done) = revocable("s".into(), async { 7 });
        assert_eq!(done.await, Some(7));
        revoker.revoke();
    }
}
