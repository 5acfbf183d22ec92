//! Futures that are dropped half way.

use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project::pin_project;

/// When a half-polled future is let go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LetGo {
    /// As soon as its last poll has returned.
    AtOnce,
    /// Cancels when it would be polled again: the event it waits for has happened.
    WhenWoken,
}

/// Polls a future a number of times, and then no more.
///
/// Completes with `None` when it is time to drop it. Every await point at
/// which a future can be dropped is reached by some number of polls.
#[pin_project]
pub(crate) struct PollTimes<F> {
    #[pin]
    pub(crate) future: F,
    pub(crate) left: u32,
    pub(crate) let_go: LetGo,
}

impl<F: Future> Future for PollTimes<F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if *this.left == 0 {
            return Poll::Ready(None);
        }
        *this.left -= 1;
        match this.future.poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if *this.left == 0 && *this.let_go == LetGo::AtOnce => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_stops_at_every_await() {
        for (left, done) in [(0, false), (1, false), (2, false), (3, true), (9, true)] {
            for let_go in [LetGo::AtOnce, LetGo::WhenWoken] {
                let future = async {
                    tokio::task::yield_now().await;
                    tokio::task::yield_now().await;
                };
                let polled = PollTimes {
                    future,
                    left,
                    let_go,
                };
                assert_eq!(polled.await.is_some(), done, "{left} {let_go:?}");
            }
        }
    }
}
