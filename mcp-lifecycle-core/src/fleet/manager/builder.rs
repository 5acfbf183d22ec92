//! The settings of a [`ServerManager`].

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::service::{RoleClient, Service};

use super::declared::Declared;
use super::server_manager::{OnRefresh, Replacement, ServerManager};
use crate::client::event::ServerObserver;
use crate::fleet::engine::{Engine, Handlers};
use crate::fleet::journal::Journal;
use crate::fleet::outcome::RefreshReport;
use crate::fleet::slots::settings::Limits;

/// Describes a [`ServerManager`].
#[must_use = "nothing is made until `build`"]
pub struct ServerManagerBuilder {
    name: String,
    concurrent_starts: usize,
    drain: Duration,
    replacement: Replacement,
    observer: Option<Arc<dyn ServerObserver>>,
    on_refresh: Option<OnRefresh>,
    handlers: Option<Handlers>,
}

impl ServerManager {
    /// A manager with the default settings, and no servers yet.
    pub fn new(name: impl Into<String>) -> Self {
        Self::builder(name).build()
    }

    /// Starts to describe a manager. The name says in lists, events and logs
    /// whose its servers are.
    pub fn builder(name: impl Into<String>) -> ServerManagerBuilder {
        ServerManagerBuilder::new(name.into())
    }
}

impl ServerManagerBuilder {
    fn new(name: String) -> Self {
        Self {
            name,
            concurrent_starts: 16,
            drain: Duration::from_secs(10),
            replacement: Replacement::default(),
            observer: None,
            on_refresh: None,
            handlers: None,
        }
    }

    /// Sets how many servers may be starting at a time; others wait their turn,
    /// and their start-up clock with them. 16 by default, at least 1.
    pub fn concurrent_starts(mut self, limit: usize) -> Self {
        self.concurrent_starts = limit.max(1);
        self
    }

    /// Sets how long calls in flight may go on when their server is replaced or
    /// removed. 10 s by default.
    pub fn drain(mut self, wait: Duration) -> Self {
        self.drain = wait;
        self
    }

    /// Sets how servers whose configuration changed are replaced.
    pub fn replacement(mut self, replacement: Replacement) -> Self {
        self.replacement = replacement;
        self
    }

    /// Sets who is told what happens.
    pub fn observer(mut self, observer: impl ServerObserver) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// Sets what is called when a refresh has settled: with the summary, after the
    /// events of its servers. Not when the caller has dropped the refresh. A panic in it
    /// is caught and logged.
    pub fn on_refresh(mut self, tell: impl Fn(&RefreshReport) + Send + Sync + 'static) -> Self {
        self.on_refresh = Some(Box::new(tell));
        self
    }

    /// Sets who answers the servers' own requests (elicitation, sampling, roots) and
    /// takes their notifications: `make` returns any rmcp `ClientHandler` for the
    /// server of this name. It is called once for each start of a process, so what the
    /// handlers share is captured by `make`. By default nothing is answered.
    ///
    /// The handler is no part of a server's configuration: reading the configuration again
    /// restarts nothing.
    pub fn handler<H: Service<RoleClient>>(
        mut self,
        make: impl Fn(&str) -> H + Send + Sync + 'static,
    ) -> Self {
        self.handlers = Some(Box::new(move |record| Arc::new(make(&record.server))));
        self
    }

    /// Makes the manager. Called inside a runtime, it remembers it, and ends
    /// servers there if it is dropped outside any.
    pub fn build(self) -> ServerManager {
        let limits = Limits {
            max_live: usize::MAX,
            max_starting: self.concurrent_starts,
        };
        ServerManager {
            engine: Engine::new(
                limits,
                Journal::new(self.observer),
                self.drain,
                self.handlers,
            ),
            declared: Arc::new(Mutex::new(Declared::default())),
            owner: Arc::from(self.name),
            replacement: self.replacement,
            on_refresh: self.on_refresh,
        }
    }
}

impl fmt::Debug for ServerManagerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerManagerBuilder")
            .field("name", &self.name)
            .field("concurrent_starts", &self.concurrent_starts)
            .field("drain", &self.drain)
            .field("replacement", &self.replacement)
            .finish_non_exhaustive()
    }
}
