use std::sync::Arc;

use crate::launch::macros::debug_fields;
use rmcp::model::ProgressNotificationParam;
use tokio::sync::Notify;

use crate::terminate::callback::guarded;

pub(crate) struct Progress {
    pub(crate) came: Notify,
    tell: Option<Arc<Tell>>,
}

type Tell = dyn Fn(&ProgressNotificationParam) + Send + Sync;

impl Progress {
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

debug_fields!(Progress, _it {});
