//! The one timer of an engine.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::time::sleep_until;

use super::{Engine, Key, State};
use crate::fleet::restart::Time;

impl<K: Key> Engine<K> {
    /// Sets the timer to the table's next deadline, if that is earlier.
    pub(super) fn set_timer(self: &Arc<Self>, state: &mut State<K>) {
        if let Some(at) = state.table.next_deadline() {
            self.advance_timer(state, at);
        }
    }

    /// Sets the timer to `at`, if that is earlier.
    pub(super) fn advance_timer(self: &Arc<Self>, state: &mut State<K>, at: Time) {
        if state.timer_at.is_some_and(|set| set <= at) {
            return;
        }
        state.timer_at = Some(at);
        if state.timer_runs {
            self.timer.notify_one();
        } else if let Some(runtime) = Handle::try_current().ok().or_else(|| self.runtime.clone()) {
            state.timer_runs = true;
            runtime.spawn(run(Arc::downgrade(self), Arc::clone(&self.timer)));
        }
    }
}

/// Lets time pass for an engine. It holds no engine while it sleeps.
async fn run<K: Key>(engine: std::sync::Weak<Engine<K>>, timer: Arc<tokio::sync::Notify>) {
    loop {
        let next = {
            let Some(engine) = engine.upgrade() else {
                return;
            };
            let mut state = engine.lock();
            state.timer_at = state.table.next_deadline();
            if state.table.is_closed() && state.table.is_empty() {
                state.timer_runs = false;
                return;
            }
            state.timer_at.map(|at| engine.instant(at))
        };
        let due = async {
            match next {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = timer.notified() => continue,
            () = due => {}
        }
        let Some(engine) = engine.upgrade() else {
            return;
        };
        engine.change(|state, now| {
            state.timer_at = None;
            state.table.tick(now);
        });
    }
}

impl<K: Key> Drop for Engine<K> {
    fn drop(&mut self) {
        self.timer.notify_one();
    }
}
