//! Requests that are made until somebody has answered.

use std::time::Duration;

use tokio::time::sleep;
use tracing::debug;

use crate::error::{ClusterError, Meaning};

/// Pauses between questions to a server that is busy, or does not answer.
#[derive(Debug)]
pub(crate) struct Pauses(Duration);

impl Pauses {
    pub(crate) const FIRST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_secs(5);

    pub(crate) const fn new() -> Self {
        Self(Self::FIRST)
    }

    /// Waits as long as this error asks for, and longer each time.
    pub(crate) async fn after(&mut self, error: &ClusterError) {
        let asked = match error.meaning() {
            Meaning::Busy(after) => after,
            _ => Duration::ZERO,
        };
        sleep(self.0.max(asked.min(Duration::from_secs(60)))).await;
        self.0 = (self.0 * 2).min(Self::LONGEST);
    }
}

/// Makes a request until it has an answer that counts. Where nobody answers it gives up after
/// `patience` in all, if there is a limit to it; a server that is busy is waited for.
pub(crate) async fn answered<T, F>(
    patience: Option<Duration>,
    mut request: impl FnMut() -> F,
) -> Result<T, ClusterError>
where
    F: Future<Output = Result<T, ClusterError>>,
{
    let mut pauses = Pauses::new();
    let begun = tokio::time::Instant::now();
    loop {
        let error = match request().await {
            Err(error) => error,
            done => return done,
        };
        match error.meaning() {
            Meaning::Busy(_) => {}
            Meaning::Unheard if patience.is_none_or(|limit| begun.elapsed() < limit) => {}
            _ => return Err(error),
        }
        debug!(%error, "asked again");
        pauses.after(&error).await;
    }
}
