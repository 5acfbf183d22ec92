//! [`LauncherRegistry`]: launchers by the names that a configuration uses.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::launch::launcher::ServerLauncher;

/// Launchers by name.
///
/// A registry may be made anew each time the configuration is read: a server keeps
/// its process if its launcher is the same `Arc` as before, or has the same
/// [`fingerprint`](ServerLauncher::fingerprint).
#[derive(Debug, Clone)]
pub struct LauncherRegistry {
    default: String,
    launchers: BTreeMap<String, Arc<dyn ServerLauncher>>,
}

impl LauncherRegistry {
    /// A registry whose default is this launcher, under its own
    /// [`name`](ServerLauncher::name).
    pub fn new(launcher: Arc<dyn ServerLauncher>) -> Self {
        let default = launcher.name().to_owned();
        Self {
            launchers: BTreeMap::from([(default.clone(), launcher)]),
            default,
        }
    }

    /// Adds a launcher under its own name.
    #[must_use]
    pub fn with_launcher(self, launcher: Arc<dyn ServerLauncher>) -> Self {
        let name = launcher.name().to_owned();
        self.with_named_launcher(name, launcher)
    }

    /// Adds a launcher under a name of your choice: two executors, say.
    #[must_use]
    pub fn with_named_launcher(
        mut self,
        name: impl Into<String>,
        launcher: Arc<dyn ServerLauncher>,
    ) -> Self {
        self.launchers.insert(name.into(), launcher);
        self
    }

    /// The launcher of this name, or the default without one.
    pub fn get(&self, name: Option<&str>) -> Option<&Arc<dyn ServerLauncher>> {
        self.launchers.get(name.unwrap_or(&self.default))
    }

    /// The names there are.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.launchers.keys().map(String::as_str)
    }
}
