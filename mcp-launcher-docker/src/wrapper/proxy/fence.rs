//! The fence around creates: once it is closed nothing new begins, and one can
//! wait until what has begun is over.

use tokio::sync::watch;

/// Whether creates may begin, and how many are under way.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    closed: bool,
    within: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Fence {
    state: watch::Sender<State>,
}

/// One create that is under way. Dropping it says that it is over.
#[derive(Debug)]
pub(super) struct Pass(watch::Sender<State>);

impl Fence {
    pub(super) fn enter(&self) -> Option<Pass> {
        let entered = self.state.send_if_modified(|state| {
            let open = !state.closed;
            state.within += usize::from(open);
            open
        });
        entered.then(|| Pass(self.state.clone()))
    }

    pub(crate) fn close(&self) {
        self.state.send_modify(|state| state.closed = true);
    }

    /// Completes when no create is under way.
    pub(crate) async fn empty(&self) {
        let mut state = self.state.subscribe();
        // The sender lives in `self`.
        let _ = state.wait_for(|state| state.within == 0).await;
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
        let pass = fence.enter().unwrap();
        fence.close();
        assert!(fence.enter().is_none());
        assert_eq!(fence.empty().now_or_never(), None);
        drop(pass);
        assert_eq!(fence.empty().now_or_never(), Some(()));
    }
}
