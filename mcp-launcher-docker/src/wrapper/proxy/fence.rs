//! The fence around creations: once it is closed, none begins, and the end of those in progress can
//! be awaited.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

#[derive(Debug, Clone, Copy, Default)]
struct State {
    closed: bool,
    within: usize,
    used: bool,
    /// A creation without a response counts as in progress until this time.
    unheard: Option<Instant>,
}

#[derive(Debug, Default)]
pub(crate) struct Fence {
    state: watch::Sender<State>,
}

/// A creation in progress, until dropped.
#[derive(Debug)]
pub(super) struct Pass(watch::Sender<State>);

impl Fence {
    /// Begins a creation; `None` once the fence is closed.
    pub(super) fn enter(&self) -> Option<Pass> {
        let entered = self.state.send_if_modified(|state| {
            let open = !state.closed;
            state.within += usize::from(open);
            state.used |= open;
            open
        });
        entered.then(|| Pass(self.state.clone()))
    }

    /// Keeps the fence non-empty without a creation.
    pub(super) fn hold(&self) -> Pass {
        self.state.send_modify(|state| state.within += 1);
        Pass(self.state.clone())
    }

    /// Ends a creation without a response, which counts as in progress for this time.
    pub(super) fn leave_unheard(&self, pass: Pass, time: Duration) {
        let until = Instant::now() + time;
        self.state.send_modify(|state| state.unheard = Some(until));
        drop(pass);
    }

    pub(crate) fn is_used(&self) -> bool {
        self.state.borrow().used
    }

    pub(crate) fn close(&self) {
        self.state.send_modify(|state| state.closed = true);
    }

    pub(super) async fn closed(&self) {
        let mut state = self.state.subscribe();
        let _ = state.wait_for(|state| state.closed).await;
    }

    pub(crate) fn has_late(&self) -> bool {
        let state = self.state.borrow();
        let unheard = state.unheard.is_some_and(|until| Instant::now() < until);
        state.closed && (state.within > 0 || unheard)
    }

    pub(crate) async fn empty(&self) {
        let mut state = self.state.subscribe();
        loop {
            let empty = state.wait_for(|state| state.within == 0).await;
            let unheard = empty.ok().and_then(|state| state.unheard);
            match unheard.filter(|until| Instant::now() < *until) {
                Some(until) => sleep_until(until).await,
                None => return,
            }
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.0.send_modify(|state| state.within -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn a_closed_fence_lets_nobody_in_and_waits_for_who_is() {
        let fence = Fence::default();
        drop(fence.hold());
        assert!(!fence.is_used());
        let pass = fence.enter().unwrap();
        assert!(fence.is_used());
        assert_eq!(fence.closed().now_or_never(), None);
        assert!(!fence.has_late());
        fence.close();
        assert_eq!(fence.closed().now_or_never(), Some(()));
        assert!(fence.has_late());
        assert!(fence.enter().is_none());
        assert_eq!(fence.empty().now_or_never(), None);
        drop(pass);
        assert!(!fence.has_late());
        assert_eq!(fence.empty().now_or_never(), Some(()));
    }

    #[test]
    fn one_whose_end_nobody_heard_of_counts_for_a_time() {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_time().start_paused(true).build();
        let runtime = runtime.unwrap();
        let fence = Fence::default();
        let time = Duration::from_millis(50);
        runtime.block_on(async {
            let begun = Instant::now();
            fence.leave_unheard(fence.enter().unwrap(), time);
            fence.close();
            assert!(fence.has_late());
            fence.empty().await;
            assert_eq!(begun.elapsed(), time);
            assert!(!fence.has_late());
        });
    }
}
