//! [`ServerManager`]: the owner of a declared set.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::declared::Declared;
use super::error::{NotReadyError, NotReadyErrorKind};
use crate::client::peer::LifecyclePeer;
use crate::fleet::counters::Counters;
use crate::fleet::engine::Engine;
use crate::fleet::inventory::record::ServerRecord;
use crate::fleet::outcome::RefreshReport;
use crate::fleet::shutdown::{ShutdownError, ShutdownReport, shutdown};
use crate::fleet::tie::tie;
use crate::launch::identity::ServerIdentity;
use crate::terminate::timing::after;

/// The way to replace a server whose configuration changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Replacement {
    /// The new process starts once the old one is proven gone. Two processes of
    /// one server never fight over a port, a lock or a file.
    #[default]
    AfterEnd,
    /// The new process starts beside the old one, which ends when the new one is
    /// ready, and stays when the new one fails. No downtime, and two processes
    /// for a while: for servers that can bear it.
    Beside,
}

/// Owns a declared set of servers.
///
/// # Drop
///
/// Dropping the manager kills every server synchronously, in any context: inside
/// or outside a runtime, during a panic, after the runtime has gone. A launch in
/// progress is dropped. If a shutdown is under way it goes on instead. Prefer
/// [`shutdown`](Self::shutdown), or tie the manager to its owner's end.
pub struct ServerManager {
    pub(super) engine: Arc<Engine<Arc<str>>>,
    pub(super) declared: Arc<Mutex<Declared>>,
    pub(super) owner: Arc<str>,
    pub(super) replacement: Replacement,
    pub(super) on_refresh: Option<OnRefresh>,
}

/// A callback for a refresh that has settled.
pub(super) type OnRefresh = Box<dyn Fn(&RefreshReport) + Send + Sync>;

impl ServerManager {
    /// The calls of a server that is ready now.
    pub fn server(&self, name: &str) -> Option<LifecyclePeer> {
        let (slot, config) = self.lock().current(name)?;
        let client = self.engine.client(slot)?;
        let peer = client
            .peer()
            .clone()
            .with_call_options(config.call_options.clone());
        peer.is_ready().then_some(peer)
    }

    /// The calls of a server, waiting for it to be ready.
    ///
    /// # Errors
    ///
    /// [`NotReadyError`]: it is not declared, the manager is shut down, or it is
    /// not ready within `limit`, with what went wrong last.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn ready(&self, name: &str, limit: Duration) -> Result<LifecyclePeer, NotReadyError> {
        let until = after(Instant::now(), limit);
        let declared = || self.lock().current(name).is_some();
        let ready = self.engine.wait_for(|state| {
            if state.table.is_closed() {
                return Some(Err(NotReadyError::new(name, NotReadyErrorKind::ShutDown)));
            }
            let Some((slot, config)) = self.lock().current(name) else {
                return Some(Err(NotReadyError::new(
                    name,
                    NotReadyErrorKind::NotDeclared,
                )));
            };
            let client = state.table.slot(slot)?.gauge()?;
            let peer = client
                .peer()
                .clone()
                .with_call_options(config.call_options.clone());
            peer.is_ready().then_some(Ok(peer))
        });
        match timeout_at(until, ready).await {
            Ok(ready) => ready,
            Err(_) => {
                let last = declared().then(|| self.last_error(name)).flatten();
                let kind = NotReadyErrorKind::TimedOut { limit, last };
                Err(NotReadyError::new(name, kind))
            }
        }
    }

    /// Starts a server anew whose restarts are used up or not yet due. Where it is not
    /// proven gone, it is ended again at once, and starts when that is proven.
    ///
    /// `false` when no server of that name is declared.
    pub fn retry(&self, name: &str) -> bool {
        let Some((slot, _)) = self.lock().current(name) else {
            return false;
        };
        self.engine
            .change(|state, now| state.table.reset(slot, now));
        true
    }

    /// Every server the manager owns: declared ones, and others until they are
    /// proven gone.
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

    /// Sums since the manager was made.
    pub fn counters(&self) -> Counters {
        self.engine.journal.tally().snapshot()
    }

    /// Ends every server, in parallel, and returns one outcome for each.
    ///
    /// From the first poll on nothing starts any more. The waits of every server
    /// are shortened as far as needed to fit into `within`; shortly before it is
    /// over, whatever still lives is killed. Concurrent and repeated calls share
    /// one run.
    ///
    /// # Errors
    ///
    /// [`ShutdownError`] names the servers that are not proven gone. They stay
    /// owned by the manager; calling again tries again.
    ///
    /// # Cancel safety
    ///
    /// The shutdown runs in its own task. Dropping this future does not
    /// stop it, and a later call joins it.
    pub async fn shutdown(&self, within: Duration) -> Result<ShutdownReport, ShutdownError> {
        shutdown(&self.engine, &self.owner, within).await
    }

    /// Shuts the manager down, within this time, when `end` completes: a task
    /// has ended, a channel is closed. May be called several times; the first
    /// end counts.
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime.
    pub fn tie_to(&self, end: impl Future<Output = ()> + Send + 'static, within: Duration) {
        tie(&self.engine, end, within);
    }

    /// Shuts the manager down, within this time, when the token is cancelled.
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime.
    pub fn tie_to_token(&self, token: CancellationToken, within: Duration) {
        self.tie_to(async move { token.cancelled().await }, within);
    }

    fn last_error(&self, name: &str) -> Option<String> {
        let records = self.engine.list();
        let record = records.into_iter().find(|record| &*record.server == name)?;
        record.last_error
    }

    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, Declared> {
        self.declared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ServerManager {
    fn drop(&mut self) {
        self.engine.abandon();
    }
}

impl fmt::Debug for ServerManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerManager")
            .field("name", &self.owner)
            .field("servers", &self.list().len())
            .finish_non_exhaustive()
    }
}
