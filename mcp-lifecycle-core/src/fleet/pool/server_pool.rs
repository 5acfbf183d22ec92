use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use rmcp::service::{RoleClient, Service};

use super::scope::{self, ScopeInner};
use crate::client::ServerObserver;
use crate::fleet::engine::{Engine, Settings};
use crate::fleet::owner::{builder, owner};
use crate::fleet::{
    AcquireError, FleetServer, Lease, Scope, ServerRecord, ShutdownError, ShutdownReport,
};
use crate::launch::ServerIdentity;
use crate::lock::Lock;

/// Owns servers that run while they are used, and for their idle time.
///
/// # Drop
///
/// Dropping the pool kills every server synchronously, in any context, leased or not. Prefer
/// [`shutdown`](Self::shutdown), or tie the pool to its owner's end.
pub struct ServerPool {
    pub(super) engine: Arc<Engine>,
    pub(super) scopes: Lock<HashMap<Arc<str>, Weak<ScopeInner>>>,
    pub(super) root: Scope,
}

impl ServerPool {
    /// Leases a server outside any scope, as [`Scope::acquire`] does for one.
    pub async fn acquire(&self, server: impl Into<FleetServer>) -> Result<Lease, AcquireError> {
        self.root.acquire(server).await
    }

    /// Leases a server outside any scope, as [`Scope::acquire_within`] does for one.
    pub async fn acquire_within(
        &self,
        server: impl Into<FleetServer>,
        limit: Duration,
    ) -> Result<Lease, AcquireError> {
        self.root.acquire_within(server, limit).await
    }

    /// Returns the scope of this name, or a new one if there is none or it has ended.
    pub fn scope(&self, name: impl Into<String>) -> Scope {
        let name: Arc<str> = Arc::from(name.into());
        let mut scopes = self.scopes.lock();
        scopes.retain(|_, scope| scope.upgrade().is_some_and(|scope| !scope.has_ended()));
        let known = scopes.get(&name).and_then(Weak::upgrade);
        let scope = known.unwrap_or_else(|| {
            let owner = scope::owner(&self.engine.owner, &name);
            let scope = ScopeInner::new(Arc::clone(&self.engine), Arc::clone(&name), owner);
            scopes.insert(name, Arc::downgrade(&scope));
            scope
        });
        drop(scopes);
        Scope::of(scope)
    }
}

owner!(ServerPool);

/// Builds a [`ServerPool`].
#[must_use = "nothing is made until `build`"]
pub struct ServerPoolBuilder {
    engine: Settings,
}

builder!(ServerPool, ServerPoolBuilder);

crate::setters! { ServerPoolBuilder:
    /// Sets the number of live servers, including starting and ending ones and those that are not
    /// proven gone. 256 by default. At the limit the least recently used idle server is evicted.
    max_live(limit: usize) |it| it.engine.limits.max_live = limit;
    /// Sets how long calls in flight may continue when their scope ends. Zero by default: they are
    /// cancelled.
    drain(wait: Duration) |it| it.engine.drain = wait;
}

impl ServerPoolBuilder {
    fn new(name: String) -> Self {
        Self {
            engine: Settings::new(name, 256, Duration::ZERO),
        }
    }

    /// Sets the handler of the servers' requests (elicitation, sampling, roots) and notifications:
    /// `make` returns any rmcp `ClientHandler` for a scope (empty outside any) and a server, once per
    /// start of a process, which all its leases share. By default nothing is answered.
    pub fn handler<H: Service<RoleClient>>(
        mut self,
        make: impl Fn(&str, &str) -> H + Send + Sync + 'static,
    ) -> Self {
        self.engine.handlers = Some(Box::new(move |scope, server| Arc::new(make(scope, server))));
        self
    }

    /// Builds the pool, which ends its servers on this runtime if it is dropped outside any.
    pub fn build(self) -> ServerPool {
        let engine = Engine::new(self.engine);
        let owner = Arc::clone(&engine.owner);
        let root = ScopeInner::new(Arc::clone(&engine), Arc::from(""), owner);
        ServerPool {
            engine,
            scopes: Lock::new(HashMap::new()),
            root: Scope::of(root),
        }
    }
}
