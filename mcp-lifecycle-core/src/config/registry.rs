use std::collections::BTreeMap;
use std::sync::Arc;

use crate::launch::ServerLauncher;

/// Launchers by the names that a configuration uses.
///
/// A registry may be created anew for each read of the configuration: a server keeps its process if
/// its launcher is the same `Arc`, or has the same [`fingerprint`](ServerLauncher::fingerprint).
#[derive(Debug, Clone)]
pub struct LauncherRegistry {
    default: String,
    launchers: BTreeMap<String, Arc<dyn ServerLauncher>>,
}

impl LauncherRegistry {
    /// Creates a registry with this default launcher, under its own [`name`](ServerLauncher::name).
    pub fn new(launcher: Arc<dyn ServerLauncher>) -> Self {
        let default = launcher.name().to_owned();
        Self {
            launchers: BTreeMap::from([(default.clone(), launcher)]),
            default,
        }
    }

    /// Adds a launcher under its own name.
    #[must_use]
    pub fn launcher(self, launcher: Arc<dyn ServerLauncher>) -> Self {
        let name = launcher.name().to_owned();
        self.named_launcher(name, launcher)
    }

    /// Adds a launcher under another name, as for two executors.
    #[must_use]
    pub fn named_launcher(
        mut self,
        name: impl Into<String>,
        launcher: Arc<dyn ServerLauncher>,
    ) -> Self {
        self.launchers.insert(name.into(), launcher);
        self
    }

    /// Returns the launcher of this name, or the default for `None`.
    pub fn get(&self, name: Option<&str>) -> Option<&Arc<dyn ServerLauncher>> {
        self.launchers.get(name.unwrap_or(&self.default))
    }

    /// Returns all names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.launchers.keys().map(String::as_str)
    }
}
