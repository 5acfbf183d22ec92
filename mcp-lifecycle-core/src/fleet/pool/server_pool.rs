//! [`ServerPool`]: the owner of servers on demand.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::key::PoolKey;
use super::lease::Lease;
use super::options::AcquireOptions;
use super::scope::{self, Scope, ScopeInner};
use crate::client::config::ServerConfig;
use crate::fleet::acquire_error::AcquireError;
use crate::fleet::counters::Counters;
use crate::fleet::engine::Engine;
use crate::fleet::inventory::record::ServerRecord;
use crate::fleet::shutdown::{ShutdownError, ShutdownReport, shutdown};
use crate::fleet::tie::tie;
use crate::launch::identity::ServerIdentity;

/// Owns servers that run while somebody uses them, and a while longer.
///
/// # Drop
///
/// Dropping the pool kills every server synchronously, in any context, whoever
/// holds leases. Prefer [`shutdown`](Self::shutdown), or tie the pool to its
/// owner's end.
pub struct ServerPool {
    pub(super) engine: Arc<Engine<PoolKey>>,
    pub(super) name: Arc<str>,
    pub(super) scopes: Mutex<HashMap<Arc<str>, Weak<ScopeInner>>>,
    /// For leases outside any scope.
    pub(super) root: Scope,
}

impl ServerPool {
    /// Leases a server outside any scope, starting it if need be.
    ///
    /// # Errors
    ///
    /// As [`Scope::acquire`].
    ///
    /// # Cancel safety
    ///
    /// As [`Scope::acquire`].
    pub async fn acquire(&self, server: &ServerConfig) -> Result<Lease, AcquireError> {
        self.root.acquire(server).await
    }

    /// Leases a server outside any scope, with options.
    ///
    /// # Errors
    ///
    /// As [`Scope::acquire`].
    ///
    /// # Cancel safety
    ///
    /// As [`Scope::acquire`].
    pub async fn acquire_with(
        &self,
        server: &ServerConfig,
        options: &AcquireOptions,
    ) -> Result<Lease, AcquireError> {
        self.root.acquire_with(server, options).await
    }

    /// A scope of this name: the one there is, if it has not ended, or a new one.
    pub fn scope(&self, name: impl Into<String>) -> Scope {
        let name: Arc<str> = Arc::from(name.into());
        let mut scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        scopes.retain(|_, scope| scope.upgrade().is_some_and(|scope| !scope.has_ended()));
        let known = scopes.get(&name).and_then(Weak::upgrade);
        let scope = known.unwrap_or_else(|| {
            let owner = scope::owner(&self.name, &name);
            let scope = ScopeInner::new(Arc::clone(&self.engine), Arc::clone(&name), owner);
            scopes.insert(name, Arc::downgrade(&scope));
            scope
        });
        drop(scopes);
        Scope::of(scope)
    }

    /// Every server of the pool, in every scope, and why it is alive.
    pub fn list(&self) -> Vec<ServerRecord> {
        self.engine.list()
    }

    /// Gives up the proof that a server has gone, by somebody who knows otherwise: its node was
    /// taken away, or he has looked there. Its slot is free from then on, and it starts again.
    ///
    /// The server is named by the [identity](ServerRecord::identity) in [`list`](Self::list), and
    /// its end is told with [`EndResult::WrittenOff`](crate::client::EndResult::WrittenOff). What
    /// this crate cannot prove it never gives up by itself. An attempt to prove that is under way
    /// goes on to its end, and a proof takes precedence.
    ///
    /// `false`, and nothing is done, where no end of this identity is unproven.
    pub fn write_off(&self, identity: &ServerIdentity) -> bool {
        self.engine.write_off(identity)
    }

    /// Sums since the pool was made.
    pub fn counters(&self) -> Counters {
        self.engine.journal.tally().snapshot()
    }

    /// Ends every server, leased or not, in parallel, and returns one outcome
    /// for each. As [`ServerManager::shutdown`](crate::fleet::ServerManager::shutdown).
    ///
    /// # Errors
    ///
    /// [`ShutdownError`] names the servers that are not proven gone.
    ///
    /// # Cancel safety
    ///
    /// The shutdown runs in its own task. Dropping this future does not
    /// stop it, and a later call joins it.
    pub async fn shutdown(&self, within: Duration) -> Result<ShutdownReport, ShutdownError> {
        shutdown(&self.engine, &self.name, within).await
    }

    /// Shuts the pool down, within this time, when `end` completes.
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime.
    pub fn tie_to(&self, end: impl Future<Output = ()> + Send + 'static, within: Duration) {
        tie(&self.engine, end, within);
    }

    /// Shuts the pool down, within this time, when the token is cancelled.
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime.
    pub fn tie_to_token(&self, token: CancellationToken, within: Duration) {
        self.tie_to(async move { token.cancelled().await }, within);
    }
}

impl Drop for ServerPool {
    fn drop(&mut self) {
        self.engine.abandon();
    }
}

impl fmt::Debug for ServerPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerPool")
            .field("name", &self.name)
            .field("servers", &self.list().len())
            .finish_non_exhaustive()
    }
}
