//! The slots that serve each name.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::client::config::ServerConfig;
use crate::fleet::slots::effect::SlotId;

/// The declared servers.
#[derive(Debug, Default)]
pub(super) struct Declared {
    pub(super) servers: BTreeMap<Arc<str>, Server>,
}

/// One declared server.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) config: Arc<ServerConfig>,
    /// The slot that serves it.
    pub(super) slot: SlotId,
    /// The slot that is to serve it, with its configuration, once it is ready.
    pub(super) successor: Option<(SlotId, Arc<ServerConfig>)>,
}

impl Declared {
    pub(super) fn current(&self, name: &str) -> Option<(SlotId, Arc<ServerConfig>)> {
        let server = self.servers.get(name)?;
        Some((server.slot, Arc::clone(&server.config)))
    }

    /// The slots of a name, the one to come first.
    pub(super) fn slots(&self, name: &str) -> Vec<SlotId> {
        let Some(server) = self.servers.get(name) else {
            return Vec::new();
        };
        let successor = server.successor.iter().map(|(slot, _)| *slot);
        successor.chain([server.slot]).collect()
    }
}

impl Server {
    /// The configuration that was declared last.
    pub(super) fn newest(&self) -> &Arc<ServerConfig> {
        self.successor
            .as_ref()
            .map_or(&self.config, |(_, config)| config)
    }
}
