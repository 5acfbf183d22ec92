//! Requests that are made until somebody has answered.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::error::{ClusterError, Meaning};

/// Pauses between questions to a server that is busy, or does not answer.
#[derive(Debug)]
pub(crate) struct Pauses {
    next: Duration,
    longest: Duration,
}

impl Pauses {
    pub(crate) const FIRST: Duration = Duration::from_millis(50);

    /// Of questions that somebody waits for, or that are given up.
    pub(crate) const fn new() -> Self {
        Self {
            next: Self::FIRST,
            longest: Duration::from_secs(5),
        }
    }

    /// Of a question that is asked for as long as it takes.
    pub(crate) const fn patient() -> Self {
        Self {
            next: Self::FIRST,
            longest: Duration::from_secs(30),
        }
    }

    /// Waits as long as this error asks for, and longer each time.
    pub(crate) async fn after(&mut self, error: &ClusterError) {
        sleep(self.next(error)).await;
    }

    fn next(&mut self, error: &ClusterError) -> Duration {
        let asked = match error.meaning() {
            Meaning::Busy(after) => after,
            _ => Duration::ZERO,
        };
        let pause = self.next.max(asked.min(Duration::from_secs(60)));
        self.next = (self.next * 2).min(self.longest);
        pause
    }
}

/// The time that an undertaking has for answers: one for all its requests, so that it ends.
pub(crate) struct Patience {
    left: Mutex<Left>,
    cancelled: CancellationToken,
    told: Box<dyn Fn(&str) + Send + Sync>,
}

struct Left {
    /// For requests that nobody answers, or whose credentials nobody accepts.
    silent: Duration,
    /// For a server that is busy.
    busy: Duration,
    /// The last that was told.
    words: String,
}

impl Patience {
    /// An API server may be restarted.
    const SILENT: Duration = Duration::from_secs(20);
    const BUSY: Duration = Duration::from_secs(60);

    pub(crate) fn new() -> Self {
        Self {
            left: Mutex::new(Left {
                silent: Self::SILENT,
                busy: Self::BUSY,
                words: String::new(),
            }),
            cancelled: CancellationToken::new(),
            told: Box::new(|_| {}),
        }
    }

    /// Makes no more requests once it is cancelled. One that was sent is not interrupted: it may
    /// come true.
    pub(crate) fn until(mut self, cancelled: CancellationToken) -> Self {
        self.cancelled = cancelled;
        self
    }

    /// Tells somebody why a request is made again.
    pub(crate) fn telling(mut self, told: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.told = Box::new(told);
        self
    }

    /// Makes a request until it has an answer that counts, or no time is left for it. A request
    /// that was sent is waited for all the same.
    pub(crate) async fn answered<T, F>(
        &self,
        mut request: impl FnMut() -> F,
    ) -> Result<T, ClusterError>
    where
        F: Future<Output = Result<T, ClusterError>>,
    {
        let mut pauses = Pauses::new();
        loop {
            if self.cancelled.is_cancelled() {
                return Err(ClusterError::Cancelled);
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

    /// Takes the time in which somebody else's question was waited for, who has failed with this:
    /// whether any is left.
    pub(crate) fn waited(&self, error: &ClusterError, time: Duration) -> bool {
        match error.meaning() {
            Meaning::Busy(_) | Meaning::Unheard | Meaning::Unaccepted => {
                self.spend(error, time, Pauses::FIRST).is_some()
            }
            // Its own question may have another answer, and has one soon.
            Meaning::Absent | Meaning::Exists | Meaning::Conflict | Meaning::Refused => true,
        }
    }

    /// Takes the time of a question and of the pause after it: how long the pause may be.
    fn spend(&self, error: &ClusterError, asked: Duration, pause: Duration) -> Option<Duration> {
        let pause = {
            let mut left = self.left();
            let left = match error.meaning() {
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
        if self.left().words != words {
            (self.told)(&words);
            self.left().words = words;
        }
        Some(pause)
    }

    fn left(&self) -> MutexGuard<'_, Left> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
