use std::time::Duration;

use super::RestartPolicy;
use super::slots::settings::{Demand, SlotSettings};
use crate::client::ServerConfig;
use crate::launch::macros::settings;

/// The number of leases that a pooled server serves at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
#[expect(missing_docs, reason = "the kind has its name")]
pub enum Sharing {
    #[default]
    Shared,
    /// One lease at a time; others wait for it, first come, first served.
    Exclusive,
}

/// The rules of a manager or a pool for one server. They govern its processes from outside:
/// a change keeps the process.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FleetOptions {
    /// `true` if a manager's refresh fails without it. Off by default.
    pub required: bool,
    /// The number of holders that a pool leases it to at a time. Any number by default.
    pub sharing: Sharing,
    /// The time a pool keeps it without a lease and without a call in flight; `None` is for
    /// ever. 10 minutes by default.
    pub idle_ttl: Option<Duration>,
    /// The number of its processes that a pool may have alive, over all scopes. No limit
    /// by default.
    pub max_live: Option<usize>,
    /// The rules by which it is started again.
    pub restart: RestartPolicy,
}

impl Default for FleetOptions {
    fn default() -> Self {
        Self {
            required: false,
            sharing: Sharing::default(),
            idle_ttl: Some(Duration::from_secs(600)),
            max_live: None,
            restart: RestartPolicy::default(),
        }
    }
}

settings!(FleetOptions {
    required: bool,
    sharing: Sharing,
    idle_ttl: impl Into<Option<Duration>>,
    max_live: impl Into<Option<usize>>,
    restart: RestartPolicy,
});

impl FleetOptions {
    pub(super) fn slot(&self, demand: Demand, beside: bool) -> SlotSettings {
        let options = self.clone();
        SlotSettings {
            demand,
            beside,
            options,
        }
    }
}

/// A server of a manager or a pool. A [`ServerConfig`] is one with the default
/// [`FleetOptions`]. Clones are cheap.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FleetServer {
    /// The server to start, and how.
    pub config: ServerConfig,
    /// How the manager or the pool treats it.
    pub options: FleetOptions,
}

impl FleetServer {
    /// The server's name.
    pub fn name(&self) -> &str {
        self.config.name()
    }
}

impl ServerConfig {
    /// The server with these rules of a manager or a pool.
    pub fn in_fleet(self, options: FleetOptions) -> FleetServer {
        FleetServer {
            config: self,
            options,
        }
    }
}

impl From<ServerConfig> for FleetServer {
    fn from(config: ServerConfig) -> Self {
        config.in_fleet(FleetOptions::new())
    }
}

impl From<&ServerConfig> for FleetServer {
    fn from(config: &ServerConfig) -> Self {
        config.clone().into()
    }
}

impl From<&Self> for FleetServer {
    fn from(server: &Self) -> Self {
        server.clone()
    }
}
