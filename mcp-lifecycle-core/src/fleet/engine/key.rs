use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::client::ServerConfig;
use crate::fleet::Sharing;

/// The key of a slot: the name of a declared server, or all that determines a pooled process.
#[derive(Clone, PartialEq, Eq, Hash)]
#[expect(clippy::large_enum_variant, reason = "a lookup allocates nothing")]
pub(crate) enum Key {
    Declared(Arc<str>),
    Pooled(PoolKey),
}

/// Equal keys share a process. Compared by value, not by hash.
#[derive(Clone)]
pub(crate) struct PoolKey {
    pub(crate) scope: Arc<str>,
    pub(crate) sharing: Sharing,
    pub(crate) config: ServerConfig,
}

impl Key {
    pub(crate) fn scope(&self) -> &str {
        match self {
            Self::Declared(_) => "",
            Self::Pooled(key) => &key.scope,
        }
    }
}

impl PartialEq for PoolKey {
    fn eq(&self, other: &Self) -> bool {
        self.scope == other.scope
            && self.sharing == other.sharing
            && self.config.same_process(&other.config)
    }
}

impl Eq for PoolKey {}

impl Hash for PoolKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.scope.hash(state);
        self.config.spec().hash(state);
    }
}
