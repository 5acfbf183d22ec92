//! The declared servers and their slots.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::client::ServerConfig;
use crate::fleet::slots::effect::SlotId;

#[derive(Debug, Default)]
pub(super) struct Declared {
    pub(super) servers: BTreeMap<Arc<str>, Server>,
}

#[derive(Debug)]
pub(super) struct Server {
    pub(super) config: Arc<ServerConfig>,
    pub(super) slot: SlotId,
    /// The slot that replaces it once it is ready, with its configuration.
    pub(super) successor: Option<(SlotId, Arc<ServerConfig>)>,
}

impl Declared {
    pub(super) fn current(&self, name: &str) -> Option<(SlotId, Arc<ServerConfig>)> {
        let server = self.servers.get(name)?;
        Some((server.slot, Arc::clone(&server.config)))
    }

    /// Returns the slots of a name, the successor first.
    pub(super) fn slots(&self, name: &str) -> Vec<SlotId> {
        let Some(server) = self.servers.get(name) else {
            return Vec::new();
        };
        let successor = server.successor.iter().map(|(slot, _)| *slot);
        successor.chain([server.slot]).collect()
    }
}

impl Server {
    pub(super) fn newest(&self) -> &Arc<ServerConfig> {
        self.successor
            .as_ref()
            .map_or(&self.config, |(_, config)| config)
    }
}
