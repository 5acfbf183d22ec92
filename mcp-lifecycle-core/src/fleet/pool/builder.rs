//! The settings of a [`ServerPool`].

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::service::{DynService, RoleClient, Service};

use super::scope;
use super::scope::{Scope, ScopeInner};
use super::server_pool::ServerPool;
use crate::client::event::ServerObserver;
use crate::fleet::engine::{Engine, Handlers};
use crate::fleet::journal::Journal;
use crate::fleet::slots::settings::Limits;

/// Describes a [`ServerPool`].
#[must_use = "nothing is made until `build`"]
pub struct ServerPoolBuilder {
    name: String,
    limits: Limits,
    drain: Duration,
    observer: Option<Arc<dyn ServerObserver>>,
    handlers: Option<MakeHandler>,
}

/// From the names of scope and server.
type MakeHandler = Box<dyn Fn(&str, &str) -> Arc<dyn DynService<RoleClient>> + Send + Sync>;

impl ServerPool {
    /// A pool with the default settings.
    pub fn new(name: impl Into<String>) -> Self {
        Self::builder(name).build()
    }

    /// Starts to describe a pool. The name says in lists, events and logs whose
    /// its servers are.
    pub fn builder(name: impl Into<String>) -> ServerPoolBuilder {
        ServerPoolBuilder::new(name.into())
    }
}

impl ServerPoolBuilder {
    fn new(name: String) -> Self {
        Self {
            name,
            limits: Limits {
                max_live: 256,
                max_starting: 16,
            },
            drain: Duration::ZERO,
            observer: None,
            handlers: None,
        }
    }

    /// Sets how many servers may be alive at a time, starting and ending ones
    /// included, and those that are not proven gone. 256 by default. At the limit
    /// the idle server that was used longest ago makes room.
    pub fn max_live(mut self, limit: usize) -> Self {
        self.limits.max_live = limit;
        self
    }

    /// Sets how many servers may be starting at a time. 16 by default, at least 1.
    pub fn concurrent_starts(mut self, limit: usize) -> Self {
        self.limits.max_starting = limit.max(1);
        self
    }

    /// Sets how long calls in flight may go on when their scope ends. Zero by
    /// default: they are cancelled.
    pub fn drain(mut self, wait: Duration) -> Self {
        self.drain = wait;
        self
    }

    /// Sets who is told what happens.
    pub fn observer(mut self, observer: impl ServerObserver) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// Sets who answers the servers' own requests (elicitation, sampling, roots) and
    /// takes their notifications: `make` returns any rmcp `ClientHandler` for a scope,
    /// whose name is empty outside any, and a server. It is called once for each start
    /// of a process, which all leases of it share; what the handlers share is captured
    /// by `make`. By default nothing is answered.
    ///
    /// The handler is no part of a server's configuration: equal configurations share
    /// a process.
    pub fn handler<H: Service<RoleClient>>(
        mut self,
        make: impl Fn(&str, &str) -> H + Send + Sync + 'static,
    ) -> Self {
        self.handlers = Some(Box::new(move |scope, server| Arc::new(make(scope, server))));
        self
    }

    /// Makes the pool. Called inside a runtime, it remembers it, and ends servers
    /// there if it is dropped outside any.
    pub fn build(self) -> ServerPool {
        let name: Arc<str> = Arc::from(self.name);
        let pool = Arc::clone(&name);
        let handlers = self.handlers.map(|make| -> Handlers {
            Box::new(move |record| make(scope::of_owner(&pool, &record.owner), &record.server))
        });
        let journal = Journal::new(self.observer);
        let engine = Engine::new(self.limits, journal, self.drain, handlers);
        let root = ScopeInner::new(Arc::clone(&engine), Arc::from(""), Arc::clone(&name));
        ServerPool {
            engine,
            name,
            scopes: Mutex::new(HashMap::new()),
            root: Scope::of(root),
        }
    }
}

impl fmt::Debug for ServerPoolBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerPoolBuilder")
            .field("name", &self.name)
            .field("limits", &self.limits)
            .field("drain", &self.drain)
            .finish_non_exhaustive()
    }
}
