//! The follower of one call's progress.

use std::sync::Arc;

use rmcp::model::ProgressNotificationParam;
use tokio::sync::Notify;

use crate::terminate::callback::guarded;

/// The follower of one call's progress.
pub(crate) struct Progress {
    /// Notified each time progress comes.
    pub(crate) came: Notify,
    tell: Option<Arc<Tell>>,
}

type Tell = dyn Fn(&ProgressNotificationParam) + Send + Sync;

impl Progress {
    /// `None` when nobody does.
    pub(crate) fn wanted(resets: bool, tell: Option<&Arc<Tell>>) -> Option<Arc<Self>> {
        let follows = || {
            Arc::new(Self {
                came: Notify::new(),
                tell: tell.cloned(),
            })
        };
        (resets || tell.is_some()).then(follows)
    }

    pub(super) fn comes(&self, progress: &ProgressNotificationParam) {
        if let Some(tell) = &self.tell {
            guarded("a follower of progress", "", || tell(progress));
        }
        self.came.notify_one();
    }
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Progress").finish_non_exhaustive()
    }
}
