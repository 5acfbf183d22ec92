//! Retries of requests, bounded in time. By hand: two budgets are shared by all requests of an
//! operation, and a request in flight is never dropped, which crates for retries have not.

use std::time::Duration;

use mcp_lifecycle_core::lock::Lock;

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::error::{ClusterError, Meaning, Result};

#[derive(Debug)]
pub(crate) struct Pauses {
    next: Duration,
    longest: Duration,
}

impl Pauses {
    pub(crate) const FIRST: Duration = Duration::from_millis(50);

    /// For requests with a deadline.
    pub(crate) const fn new() -> Self {
        Self::up_to(5)
    }

    /// For requests that are retried without a deadline.
    pub(crate) const fn patient() -> Self {
        Self::up_to(30)
    }

    const fn up_to(seconds: u64) -> Self {
        let (next, longest) = (Self::FIRST, Duration::from_secs(seconds));
        Self { next, longest }
    }

    pub(crate) async fn after(&mut self, error: &ClusterError) {
        sleep(self.next(error)).await;
    }

    fn next(&mut self, error: &ClusterError) -> Duration {
        let asked = match error.meaning {
            Meaning::Busy(after) => after,
            _ => Duration::ZERO,
        };
        let pause = self.next.max(asked.min(Duration::from_secs(60)));
        self.next = (self.next * 2).min(self.longest);
        pause
    }
}

/// The time budget of an operation, shared by all its requests.
pub(crate) struct Patience {
    left: Lock<Left>,
    cancelled: CancellationToken,
    told: Box<dyn Fn(&str) + Send + Sync>,
}

struct Left {
    /// For requests without a response, or with rejected credentials.
    silent: Duration,
    busy: Duration,
    words: String,
}

impl Patience {
    /// Long enough for a restart of the API server.
    const SILENT: Duration = Duration::from_secs(20);
    const BUSY: Duration = Duration::from_secs(60);

    pub(crate) fn new() -> Self {
        Self {
            left: Lock::new(Left {
                silent: Self::SILENT,
                busy: Self::BUSY,
                words: String::new(),
            }),
            cancelled: CancellationToken::new(),
            told: Box::new(|_| {}),
        }
    }

    /// Stops retrying once this is cancelled. A request in flight is not interrupted.
    pub(crate) fn until(mut self, cancelled: CancellationToken) -> Self {
        self.cancelled = cancelled;
        self
    }

    pub(crate) fn telling(mut self, told: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.told = Box::new(told);
        self
    }

    /// Retries a request until it has a definite response or the budget is spent.
    pub(crate) async fn answered<T, F>(&self, mut request: impl FnMut() -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let mut pauses = Pauses::new();
        loop {
            if self.cancelled.is_cancelled() {
                return Err(ClusterError::cancelled());
            }
            let begun = Instant::now();
            let error = match request().await {
                Err(error) => error,
                done => return done,
            };
            let pause = pauses.next(&error);
            let Some(pause) = self.spend(&error, begun.elapsed(), pause) else {
                return Err(error);
            };
            debug!(%error, "asked again");
            tokio::select! {
                biased;
                () = self.cancelled.cancelled() => {}
                () = sleep(pause) => {}
            }
        }
    }

    /// Charges the budget for another caller's failed request. Returns whether any is left.
    pub(crate) fn waited(&self, error: &ClusterError, time: Duration) -> bool {
        match error.meaning {
            Meaning::Busy(_) | Meaning::Unheard | Meaning::Unaccepted => {
                self.spend(error, time, Pauses::FIRST).is_some()
            }
            // The caller's own request may have another result, and will have it soon.
            Meaning::Absent | Meaning::Exists | Meaning::Conflict | Meaning::Refused => true,
        }
    }

    /// Charges the budget for a request and the pause after it. Returns the length of that pause.
    fn spend(&self, error: &ClusterError, asked: Duration, pause: Duration) -> Option<Duration> {
        let pause = {
            let mut left = self.left.lock();
            let left = match error.meaning {
                Meaning::Busy(_) => &mut left.busy,
                Meaning::Unheard | Meaning::Unaccepted => &mut left.silent,
                Meaning::Absent | Meaning::Exists | Meaning::Conflict | Meaning::Refused => {
                    return None;
                }
            };
            *left = left.saturating_sub(asked);
            let pause = pause.min(*left);
            *left -= pause;
            pause
        };
        if pause.is_zero() {
            return None;
        }
        let words = error.to_string();
        if self.left.lock().words != words {
            (self.told)(&words);
            self.left.lock().words = words;
        }
        Some(pause)
    }
}

#[cfg(test)]
mod tests;
