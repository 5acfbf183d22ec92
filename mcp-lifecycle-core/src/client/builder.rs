//! The settings of a client beside the description of its server.

use std::fmt;
use std::sync::Arc;

use rmcp::service::{DynService, RoleClient, Service};

use super::config::ServerConfig;
use super::event::{Observed, ServerObserver};

/// Describes a [`LifecycleClient`](super::LifecycleClient).
#[must_use = "nothing starts until `start`"]
pub struct LifecycleClientBuilder {
    pub(super) config: ServerConfig,
    pub(crate) handler: Arc<dyn DynService<RoleClient>>,
    pub(crate) observed: Observed,
}

impl LifecycleClientBuilder {
    pub(crate) fn new(config: ServerConfig) -> Self {
        let observed = Observed::by_nobody(config.name());
        Self {
            config,
            handler: Arc::new(()),
            observed,
        }
    }

    /// Sets who answers the server's own requests (elicitation, sampling,
    /// roots) and takes its notifications: any rmcp `ClientHandler`.
    pub fn handler(mut self, handler: impl Service<RoleClient>) -> Self {
        self.handler = Arc::new(handler);
        self
    }

    /// Sets who is told what happens.
    pub fn observer(mut self, observer: impl ServerObserver) -> Self {
        self.observed.observer = Some(Arc::new(observer));
        self
    }
}

impl fmt::Debug for LifecycleClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LifecycleClientBuilder")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
