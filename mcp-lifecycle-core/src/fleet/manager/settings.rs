//! A manager's view of a server's settings.

use std::sync::Arc;

use crate::client::config::ServerConfig;
use crate::fleet::slots::settings::{Demand, SlotSettings};

pub(super) fn slot(config: &ServerConfig, beside: bool) -> SlotSettings {
    SlotSettings {
        demand: Demand::Declared,
        exclusive: false,
        idle_ttl: None,
        restart: config.restart.clone(),
        beside,
        server: Arc::from(config.name()),
        max_of_server: None,
    }
}
