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
    let mut tell = |failure: Option<&EngineError>| {
        on_failure(failure);
        if let Some(error) = failure
            && !failed
        {
            warn!(container, error = %ErrorChain(error), "container not removed yet");
        }
        failed = failure.is_some();
    };
    loop {
        let ordered = engine.remove(container).await;
        if let Err(error) = &ordered {
            // Before the next question, which may take as long to fail.
            tell(Some(error));
        }
        match engine.state(container).await {
            Ok(State::Absent) => break,
            Ok(_) if ordered.is_ok() => tell(None),
            Ok(_) => {}
            Err(error) => tell(Some(&error)),
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
    }
    debug!(container, "container removed");
}
