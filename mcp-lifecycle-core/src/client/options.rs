//! [`CallOptions`]: the time limits of a call, and who follows its progress.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::ProgressNotificationParam;

use crate::launch::setters::setters;

/// The time limits of a call, and who follows its progress.
#[derive(Clone)]
#[non_exhaustive]
pub struct CallOptions {
    /// The time to wait for an answer; `None` waits for ever. 5 minutes by default.
    pub timeout: Option<Duration>,
    /// `true` if progress of this call starts `timeout` anew. Off by default.
    pub reset_on_progress: bool,
    /// The longest a call may take whatever its progress. None by default.
    pub max_total: Option<Duration>,
    pub(super) progress: Option<Arc<OnProgress>>,
}

/// A callback for each progress notification of a call.
pub(super) type OnProgress = dyn Fn(&ProgressNotificationParam) + Send + Sync;

impl Default for CallOptions {
    fn default() -> Self {
        Self {
            timeout: Some(Duration::from_secs(300)),
            reset_on_progress: false,
            max_total: None,
            progress: None,
        }
    }
}

impl CallOptions {
    /// The default limits.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets how long to wait for an answer; `None` waits until the server ends.
        with_timeout(timeout: impl Into<Option<Duration>>);
    }

    /// Lets progress start the timeout anew, up to `max_total` altogether.
    #[must_use]
    pub fn with_reset_on_progress(mut self, max_total: Duration) -> Self {
        self.reset_on_progress = true;
        self.max_total = Some(max_total);
        self
    }

    /// Sets what is called with the progress of this very call, in order, until it is
    /// answered. Be quick, do not block; a panic is caught and logged.
    #[must_use]
    pub fn with_progress(
        mut self,
        progress: impl Fn(&ProgressNotificationParam) + Send + Sync + 'static,
    ) -> Self {
        self.progress = Some(Arc::new(progress));
        self
    }
}

impl fmt::Debug for CallOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallOptions")
            .field("timeout", &self.timeout)
            .field("reset_on_progress", &self.reset_on_progress)
            .field("max_total", &self.max_total)
            .finish_non_exhaustive()
    }
}
