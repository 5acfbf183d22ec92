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
    /// Lets progress restart `timeout`, up to this time altogether. Off by default.
    pub reset_on_progress: Option<Duration>,
    pub(super) progress: Option<Arc<OnProgress>>,
}

pub(super) type OnProgress = dyn Fn(&ProgressNotificationParam) + Send + Sync;

impl Default for CallOptions {
    fn default() -> Self {
        Self {
            timeout: Some(Duration::from_secs(300)),
            reset_on_progress: None,
            progress: None,
        }
    }
}

settings!(CallOptions {
    timeout: impl Into<Option<Duration>>,
    reset_on_progress: impl Into<Option<Duration>>,
});

impl CallOptions {
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
        reset_on_progress: &it.reset_on_progress
    }
);
