use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::time::sleep_until;

use super::{Engine, State};
use crate::fleet::restart::Time;

impl Engine {
    pub(crate) fn advance_timer(self: &Arc<Self>, state: &mut State, at: Time) {
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

/// Runs the timer. Holds no engine while it sleeps.
async fn run(engine: std::sync::Weak<Engine>, timer: Arc<tokio::sync::Notify>) {
    loop {
        let next = {
            let Some(engine) = engine.upgrade() else {
                return;
            };
            let mut state = engine.state.lock();
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

impl Drop for Engine {
    fn drop(&mut self) {
        self.timer.notify_one();
    }
}
