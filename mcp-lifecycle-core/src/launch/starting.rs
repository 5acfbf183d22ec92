//! What lasts as long as a start: from the launch to a server that is ready, or to the failure.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

type Guards = Vec<Box<dyn Send>>;

/// One start, and what is kept until it is over.
#[derive(Clone)]
pub(crate) struct Starting {
    /// `None` once it is over.
    kept: Arc<Mutex<Option<Guards>>>,
}

impl Starting {
    pub(crate) fn new() -> Self {
        Self {
            kept: Arc::new(Mutex::new(Some(Vec::new()))),
        }
    }

    /// Keeps something until then; drops it where it is over.
    pub(crate) fn keep(&self, guard: Box<dyn Send>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = kept.as_mut() {
            return kept.push(guard);
        }
        // Others' code, which runs under no lock.
        drop(kept);
        drop(guard);
    }

    /// Drops what was kept.
    pub(crate) fn over(&self) {
        let kept = self
            .kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        drop(kept);
    }
}

impl fmt::Debug for Starting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Starting").finish_non_exhaustive()
    }
}

/// The owner of a start: with it, the start is over.
#[derive(Debug)]
pub(crate) struct OwnedStart(pub(crate) Starting);

impl Drop for OwnedStart {
    fn drop(&mut self) {
        self.0.over();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;

    use super::*;
    use crate::launch::context::LaunchContext;

    fn keep(context: &LaunchContext) -> Weak<()> {
        let guard = Arc::new(());
        let seen = Arc::downgrade(&guard);
        context.keep_until_ready(guard);
        seen
    }

    #[test]
    fn a_guard_is_kept_until_the_start_is_over() {
        let start = OwnedStart(Starting::new());
        let context = LaunchContext::new().with_start(&start.0);
        let seen = keep(&context);
        assert!(seen.upgrade().is_some());
        // A launcher may keep the context for longer.
        let longer = context.clone();
        drop(context);
        assert!(seen.upgrade().is_some());
        start.0.over();
        assert!(seen.upgrade().is_none());
        assert!(keep(&longer).upgrade().is_none(), "it is over");
    }

    #[test]
    fn a_start_that_is_given_up_is_over() {
        let start = OwnedStart(Starting::new());
        let context = LaunchContext::new().with_start(&start.0);
        let seen = keep(&context);
        drop(start);
        assert!(seen.upgrade().is_none());
        assert!(
            keep(&LaunchContext::new()).upgrade().is_none(),
            "there is none"
        );
    }
}
