use std::sync::Arc;
use std::time::Duration;

use rmcp::service::{RoleClient, Service};
use tokio::time::{Instant, timeout_at};

use super::refresh::Declared;
use crate::client::{LifecyclePeer, ServerObserver};
use crate::fleet::engine::{Engine, Settings, State};
use crate::fleet::owner::{builder, owner};
use crate::fleet::slots::effect::SlotId;
use crate::fleet::{AcquireError, AcquireErrorKind, ServerRecord, ShutdownError, ShutdownReport};
use crate::launch::ServerIdentity;
use crate::lock::Lock;
use crate::terminate::timing::after;

/// The way to replace a server with a changed configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Replacement {
    /// The new process starts once the old one is proven gone: two processes of one server never
    /// compete for a port, a lock or a file.
    #[default]
    AfterEnd,
    /// The new process starts beside the old one, which ends when the new one is ready, and stays
    /// if that fails.
    Beside,
}

/// Owns a declared set of servers.
///
#[cfg_attr(feature = "config", doc = "```no_run")]
#[cfg_attr(not(feature = "config"), doc = "```ignore")]
/// use std::sync::Arc;
/// use std::time::Duration;
/// use mcp_lifecycle_core::config::{ConfigReader, LauncherRegistry};
/// use mcp_lifecycle_core::{ServerEvent, ServerLauncher, ServerManager};
///
/// # async fn example(launcher: Arc<dyn ServerLauncher>) -> Result<(), Box<dyn std::error::Error>> {
/// let launchers = LauncherRegistry::new(launcher); // `LocalLauncher::new()`, say
/// let reader = ConfigReader::new(&launchers);
/// let manager = ServerManager::builder("my-host")
///     .observer(|event: &ServerEvent| println!("{}: {}", event.server, event.kind))
///     .build();
/// println!("{}", manager.refresh(reader.read_file("mcp.json")?.servers).await?);
/// let files = manager.ready("files", Duration::from_secs(30)).await?;
/// println!("{} tools", files.list_all_tools().await?.len());
/// // Again when the file has changed: unchanged servers keep their process.
/// println!("{}", manager.refresh(reader.read_file("mcp.json")?.servers).await?);
/// println!("{}", manager.shutdown(Duration::from_secs(10)).await?);
/// # Ok(()) }
/// ```
///
/// # Drop
///
/// Dropping the manager kills every server synchronously, in any context, and drops launches in
/// progress. A shutdown in progress continues instead. Prefer [`shutdown`](Self::shutdown), or tie
/// the manager to its owner's end.
pub struct ServerManager {
    pub(super) engine: Arc<Engine>,
    pub(super) declared: Arc<Lock<Declared>>,
    pub(super) replacement: Replacement,
}

impl ServerManager {
    /// Returns the calls of a server that is ready now.
    pub fn server(&self, name: &str) -> Option<LifecyclePeer> {
        self.peer(&self.engine.state.lock(), name)
    }

    /// Waits for a server to be ready and returns its calls. Cancel safe.
    ///
    /// # Errors
    ///
    /// [`AcquireError`]: it is not declared, the manager is shut down, or it is not ready within
    /// `limit`, with its last failure.
    pub async fn ready(&self, name: &str, limit: Duration) -> Result<LifecyclePeer, AcquireError> {
        let until = after(Instant::now(), limit);
        let declared = || self.declared.lock().contains_key(name);
        let ready = self.engine.wait_for(|state| {
            if state.table.is_closed() {
                return Some(Err(AcquireErrorKind::Closed));
            }
            if !declared() {
                return Some(Err(AcquireErrorKind::NotDeclared));
            }
            self.peer(state, name).map(Ok)
        });
        let ready = timeout_at(until, ready).await.unwrap_or_else(|_| {
            Err(AcquireErrorKind::TimedOut {
                timeout: limit,
                holder: None,
                last: self.last_error(name),
            })
        });
        ready.map_err(|kind| AcquireError::new(name, &self.engine.owner, kind))
    }

    /// Restarts a server now, even if its restarts are exhausted or not yet due. If it is not
    /// proven gone, its end is retried first.
    ///
    /// Returns `false` if no server of this name is declared.
    pub fn retry(&self, name: &str) -> bool {
        let slot = self.slot(name);
        if let Some(slot) = slot {
            self.engine
                .change(|state, now| state.table.reset(slot, now));
        }
        slot.is_some()
    }

    fn slot(&self, name: &str) -> Option<SlotId> {
        let declared = self.declared.lock();
        declared.get(name).map(|server| server.slot)
    }

    fn peer(&self, state: &State, name: &str) -> Option<LifecyclePeer> {
        let declared = self.declared.lock();
        let server = declared.get(name)?;
        let peer = state.table.slot(server.slot)?.entry.client()?.peer();
        let options = server.config.call_options.clone();
        let peer = peer.clone().call_options(options);
        peer.is_ready().then_some(peer)
    }

    fn last_error(&self, name: &str) -> Option<String> {
        let slot = self.slot(name)?;
        self.engine.state.lock().table.slot(slot)?.last_error()
    }
}

owner!(ServerManager);

/// Builds a [`ServerManager`].
#[must_use = "nothing is made until `build`"]
pub struct ServerManagerBuilder {
    engine: Settings,
    replacement: Replacement,
}

builder!(ServerManager, ServerManagerBuilder);

crate::setters! { ServerManagerBuilder:
    /// Sets how long calls in flight may continue when their server is replaced or removed. 10 s by
    /// default.
    drain(wait: Duration) |it| it.engine.drain = wait;
    /// Sets how servers with a changed configuration are replaced.
    replacement(replacement: Replacement) |it| it.replacement = replacement;
}

impl ServerManagerBuilder {
    fn new(name: String) -> Self {
        Self {
            engine: Settings::new(name, usize::MAX, Duration::from_secs(10)),
            replacement: Replacement::default(),
        }
    }

    /// Sets the handler of the servers' requests (elicitation, sampling, roots) and notifications:
    /// `make` returns any rmcp `ClientHandler` for the server of this name, once per start of a
    /// process. By default nothing is answered. A changed handler restarts nothing.
    pub fn handler<H: Service<RoleClient>>(
        mut self,
        make: impl Fn(&str) -> H + Send + Sync + 'static,
    ) -> Self {
        self.engine.handlers = Some(Box::new(move |_, server| Arc::new(make(server))));
        self
    }

    /// Builds the manager, which ends its servers on this runtime if it is dropped outside any.
    pub fn build(self) -> ServerManager {
        ServerManager {
            engine: Engine::new(self.engine),
            declared: Arc::new(Lock::new(Declared::default())),
            replacement: self.replacement,
        }
    }
}
