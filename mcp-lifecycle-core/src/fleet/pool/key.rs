//! The key by which callers share a process.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::client::config::ServerConfig;

/// Equal keys share a process. No hash decides it: everything is compared.
#[derive(Clone)]
pub(super) struct PoolKey {
    pub(super) scope: Arc<str>,
    pub(super) identity: Option<Arc<str>>,
    pub(super) config: ServerConfig,
}

impl PartialEq for PoolKey {
    fn eq(&self, other: &Self) -> bool {
        self.scope == other.scope
            && self.identity == other.identity
            && self.config.sharing == other.config.sharing
            && self.config.same_process(&other.config)
    }
}

impl Eq for PoolKey {}

impl Hash for PoolKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // A part is enough to find it; equality looks at the rest.
        let spec = self.config.spec();
        self.scope.hash(state);
        self.identity.hash(state);
        spec.name().hash(state);
        spec.program().hash(state);
        spec.args().hash(state);
        for (name, value) in spec.env().literals() {
            (name, value).hash(state);
        }
    }
}
