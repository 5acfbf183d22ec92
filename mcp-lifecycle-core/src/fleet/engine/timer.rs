use std::sync::Arc;

use tokio::time::sleep_until;
use tokio_util::task::AbortOnDropHandle;

use super::{Engine, State};
use crate::fleet::restart::Time;

/// The task that sleeps until the next deadline of a slot. Holds no engine meanwhile.
pub(super) struct Timer {
    at: Time,
    task: AbortOnDropHandle<()>,
}

impl Engine {
    pub(crate) fn advance_timer(self: &Arc<Self>, state: &mut State, at: Time) {
        let fires = |timer: &Timer| timer.at <= at && !timer.task.is_finished();
        if state.timer.as_ref().is_some_and(fires) {
            return;
        }
        let Some(runtime) = self.runtime() else {
            return;
        };
        let (engine, due) = (Arc::downgrade(self), self.instant(at));
        let task = runtime.spawn(async move {
            sleep_until(due).await;
            if let Some(engine) = engine.upgrade() {
                engine.change(|state, now| {
                    state.timer = None;
                    state.table.tick(now);
                });
            }
        });
        let task = AbortOnDropHandle::new(task);
        state.timer = Some(Timer { at, task });
    }
}
