use std::collections::BTreeMap;
use std::sync::Arc;

use crate::client::ServerConfig;
use crate::fleet::slots::effect::SlotId;

/// The declared servers by name.
pub(super) type Declared = BTreeMap<Arc<str>, Server>;

#[derive(Debug)]
pub(super) struct Server {
    pub(super) config: Arc<ServerConfig>,
    pub(super) slot: SlotId,
    /// The slot that replaces it once it is ready, with its configuration.
    pub(super) successor: Option<(SlotId, Arc<ServerConfig>)>,
}

impl Server {
    pub(super) fn newest(&self) -> &Arc<ServerConfig> {
        self.successor
            .as_ref()
            .map_or(&self.config, |(_, config)| config)
    }
}
