use std::sync::Arc;
use std::time::Duration;

use crate::launch::macros::{debug_fields, settings};

/// Options of a lease request. `Debug` does not show the identity.
#[derive(Clone)]
#[non_exhaustive]
pub struct AcquireOptions {
    /// The time to wait for capacity, a start, a due restart, or the holder of an exclusive server.
    /// 1 minute by default.
    pub timeout: Duration,
    /// The identity of the caller. Callers with different identities share nothing, even with equal
    /// specifications.
    pub(super) identity: Option<Arc<str>>,
}

impl Default for AcquireOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(60),
            identity: None,
        }
    }
}

settings!(AcquireOptions { timeout: Duration });

impl AcquireOptions {
    /// Sets the identity of the caller.
    #[must_use]
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(Arc::from(identity.into()));
        self
    }
}

debug_fields!(
    AcquireOptions,
    it {
        timeout: &it.timeout,
        identity: &it.identity.as_ref().map(|_| "***")
    }
);
