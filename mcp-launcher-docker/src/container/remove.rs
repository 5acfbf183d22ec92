use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mcp_lifecycle_core::launch::{ErrorChain, Remnant};
use mcp_lifecycle_core::lock::Lock;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::engine::{Engine, EngineError, State};

const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(2));

/// Removes a container, by name or ID, until the daemon reports that it does not exist. Never gives
/// up. Calls `on_failure` with each obstacle, and with `None` once the daemon responds again.
pub(crate) async fn remove_until_absent(
    engine: &Engine,
    container: &str,
    on_failure: impl FnMut(Option<&EngineError>),
) {
    until_absent(engine, container, false, on_failure).await;
}

/// Does the same as [`remove_until_absent`]. Only checks at first if the container was reported as
/// removed, which is no proof.
pub(super) async fn until_absent(
    engine: &Engine,
    container: &str,
    mut is_removed: bool,
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
        let ordered = match std::mem::take(&mut is_removed) {
            false => engine.remove(container).await,
            true => Ok(()),
        };
        if let Err(error) = &ordered {
            // Before the next request, which may take as long to fail.
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

#[cfg(all(test, unix))]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::fake::{FakeEngine, within};

    /// The requests about a container that is there for as many looks.
    fn asked(is_removed: bool, looks: usize) -> Vec<String> {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        let fake = FakeEngine::start(move |request| {
            let method = request.split(' ').next().unwrap().to_owned();
            let mut seen = seen.lock().unwrap();
            seen.push(method.clone());
            let looked = seen.iter().filter(|method| *method == "GET").count();
            Some(match method.as_str() {
                "GET" if looked <= looks => (200, r#"{"State":{"Status":"running"}}"#.to_owned()),
                _ => (404, r#"{"message":"no such container"}"#.to_owned()),
            })
        });
        let engine = Engine::new(fake.endpoint());
        within("it is gone", until_absent(&engine, "x", is_removed, |_| {}));
        let requests = requests.lock().unwrap();
        requests.clone()
    }

    #[test]
    fn what_is_said_to_be_removed_is_looked_for_and_only_then_ordered() {
        assert_eq!(asked(true, 0), ["GET"]);
        assert_eq!(asked(true, 1), ["GET", "DELETE", "GET"]);
        assert_eq!(asked(false, 0), ["DELETE", "GET"]);
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Unfinished(Arc<Lock<BTreeMap<String, Launch>>>);

#[derive(Debug)]
struct Launch {
    server: String,
    /// Cancelled once its caller is gone.
    cancelled: CancellationToken,
}

/// A container that is being created or undone. Dropping it means that it became a server or that
/// nothing is left.
#[derive(Debug)]
pub(crate) struct Entry {
    all: Unfinished,
    container: String,
}

impl Unfinished {
    pub(crate) fn begin(
        &self,
        container: &str,
        server: &str,
        cancelled: &CancellationToken,
    ) -> Entry {
        let launch = Launch {
            server: server.to_owned(),
            cancelled: cancelled.clone(),
        };
        self.0.lock().insert(container.to_owned(), launch);
        Entry {
            all: self.clone(),
            container: container.to_owned(),
        }
    }

    pub(crate) fn of(&self, server: &str) -> Vec<Remnant> {
        let by_name = |name: &String| Remnant::container(name.clone(), name.clone());
        let ours = |launch: &Launch| launch.server == server && launch.cancelled.is_cancelled();
        let all = self.0.lock();
        let ours = all.iter().filter(|(_, launch)| ours(launch));
        ours.map(|(name, _)| by_name(name)).collect()
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.all.0.lock().remove(&self.container);
    }
}
