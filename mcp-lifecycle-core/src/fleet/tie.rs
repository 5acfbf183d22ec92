//! The tie between an owner's end and the shutdown of what it owns.

use std::sync::Arc;
use std::time::Duration;

use super::engine::{Engine, Key};

/// Shuts the engine down when `end` completes. Keeps no engine alive meanwhile.
pub(crate) fn tie<K: Key>(
    engine: &Arc<Engine<K>>,
    end: impl Future<Output = ()> + Send + 'static,
    within: Duration,
) {
    let weak = Arc::downgrade(engine);
    let dropped = engine.dropped();
    tokio::spawn(async move {
        tokio::select! {
            () = end => {}
            // Whoever dropped it has ended everything already.
            () = dropped.cancelled_owned() => return,
        }
        if let Some(engine) = weak.upgrade() {
            let closed = engine.close(within).await;
            let unproven = closed.ends.iter().filter(|end| end.result.is_err()).count();
            if unproven > 0 {
                tracing::warn!(unproven, "servers not proven gone after their owner's end");
            }
        }
    });
}
