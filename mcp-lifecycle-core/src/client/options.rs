use std::sync::Arc;
use std::time::Duration;

use rmcp::model::ProgressNotificationParam;

use crate::launch::macros::{debug_fields, settings};

/// Time limits and progress of a call.
#[derive(Clone)]
#[non_exhaustive]
pub struct CallOptions {
    /// The time to wait for an answer; `None` waits for ever. 5 minutes by default.
    pub timeout: Option<Duration>,
    /// `true` if progress of this call restarts `timeout`. Off by default.
    pub reset_on_progress: bool,
    /// The longest time of a call regardless of progress. None by default.
    pub max_total: Option<Duration>,
    pub(super) progress: Option<Arc<OnProgress>>,
}

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

settings!(CallOptions { timeout: impl Into<Option<Duration>> });

impl CallOptions {
    /// Lets progress restart the timeout, up to `max_total` altogether.
    #[must_use]
    pub fn reset_on_progress(mut self, max_total: Duration) -> Self {
        self.reset_on_progress = true;
        self.max_total = Some(max_total);
        self
    }

    /// Sets the callback for this call's progress, in order, until it is answered. It must be quick
    /// and not block; a panic is caught and logged.
    #[must_use]
    pub fn progress(
        mut self,
        progress: impl Fn(&ProgressNotificationParam) + Send + Sync + 'static,
    ) -> Self {
        self.progress = Some(Arc::new(progress));
        self
    }
}

debug_fields!(
    CallOptions,
    it {
        timeout: &it.timeout,
        reset_on_progress: &it.reset_on_progress,
        max_total: &it.max_total
    }
);
