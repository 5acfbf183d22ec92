//! The options of a request for a lease.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::launch::setters::setters;

/// The options of a request for a lease. `Debug` does not show the identity.
#[derive(Clone)]
#[non_exhaustive]
pub struct AcquireOptions {
    /// The time to wait for a lease: for room, for a start, for a restart that
    /// is due, for the holder of an exclusive server. 1 minute by default.
    pub timeout: Duration,
    /// On whose behalf. Callers with different identities share nothing, also
    /// where the server's specification is the same.
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

impl AcquireOptions {
    /// The default options.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets how long to wait.
        with_timeout(timeout: Duration);
    }

    /// Sets on whose behalf the server is used.
    #[must_use]
    pub fn with_identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(Arc::from(identity.into()));
        self
    }
}

impl fmt::Debug for AcquireOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcquireOptions")
            .field("timeout", &self.timeout)
            .field("identity", &self.identity.as_ref().map(|_| "***"))
            .finish()
    }
}
