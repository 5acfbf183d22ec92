//! The containers of launches that have not come to a server, by name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use mcp_lifecycle_core::launch::Remnant;

/// The names of the containers that launches are about to create or to remove,
/// each with its server's.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unfinished(Arc<Mutex<BTreeMap<String, String>>>);

/// A launch that is under way. Dropping it says that it came to a server, or that
/// nothing is left of it.
#[derive(Debug)]
pub(crate) struct Entry {
    all: Unfinished,
    container: String,
}

impl Unfinished {
    pub(crate) fn begin(&self, container: &str, server: &str) -> Entry {
        self.change(|all| all.insert(container.to_owned(), server.to_owned()));
        Entry {
            all: self.clone(),
            container: container.to_owned(),
        }
    }

    pub(crate) fn of(&self, server: &str) -> Vec<Remnant> {
        let by_name = |name: &String| Remnant::container(name.clone(), name.clone());
        self.change(|all| {
            let ours = all.iter().filter(|(_, found)| *found == server);
            ours.map(|(name, _)| by_name(name)).collect()
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut BTreeMap<String, String>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.all.change(|all| all.remove(&self.container));
    }
}
