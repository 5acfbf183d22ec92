//! Containers of launches without a server yet, by name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use mcp_lifecycle_core::launch::Remnant;
use tokio_util::sync::CancellationToken;

#[derive(Debug, Clone, Default)]
pub(crate) struct Unfinished(Arc<Mutex<BTreeMap<String, Launch>>>);

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
        self.change(|all| all.insert(container.to_owned(), launch));
        Entry {
            all: self.clone(),
            container: container.to_owned(),
        }
    }

    pub(crate) fn of(&self, server: &str) -> Vec<Remnant> {
        let by_name = |name: &String| Remnant::container(name.clone(), name.clone());
        self.change(|all| {
            let ours = |launch: &Launch| launch.server == server && launch.cancelled.is_cancelled();
            let ours = all.iter().filter(|(_, launch)| ours(launch));
            ours.map(|(name, _)| by_name(name)).collect()
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut BTreeMap<String, Launch>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.all.change(|all| all.remove(&self.container));
    }
}
