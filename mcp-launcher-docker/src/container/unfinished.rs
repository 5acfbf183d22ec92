//! Containers of launches without a server yet, by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use mcp_lifecycle_core::launch::Remnant;
use mcp_lifecycle_core::lock::Lock;
use tokio_util::sync::CancellationToken;

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
