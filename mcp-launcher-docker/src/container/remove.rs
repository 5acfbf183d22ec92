//! Removal until it is proven.

use std::time::Duration;

use tokio::time::sleep;
use tracing::{debug, warn};

use crate::engine::{Engine, EngineError, State};
use mcp_lifecycle_core::launch::ErrorChain;

/// The first pause between two attempts, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(2));

/// Orders the removal of a container, by name or id, until the daemon says
/// that there is no such container. `on_failure` is told what stands in the
/// way, and `None` when the daemon answers again.
///
/// Never gives up: what cannot be removed is reported by whoever waits for it,
/// and a daemon that comes back finds us asking.
pub(crate) async fn remove_until_absent(
    engine: &Engine,
    container: &str,
    mut on_failure: impl FnMut(Option<&EngineError>),
) {
    let mut pause = PAUSES.0;
    let mut failed = false;
    loop {
        match attempt(engine, container).await {
            Ok(true) => return,
            Ok(false) => {
                on_failure(None);
                failed = false;
            }
            Err(error) => {
                on_failure(Some(&error));
                if !std::mem::replace(&mut failed, true) {
                    warn!(container, error = %ErrorChain(&error), "container not removed yet");
                }
            }
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// One order; `true` when it is proven.
async fn attempt(engine: &Engine, container: &str) -> Result<bool, EngineError> {
    let ordered = engine.remove(container).await;
    let state = engine.state(container).await?;
    if state == State::Absent {
        debug!(container, "container removed");
        return Ok(true);
    }
    ordered.map(|()| false)
}
