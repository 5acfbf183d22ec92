//! The executor daemon: the same protocol as codex's exec-server, plus what it
//! lacks, negotiated.
//!
//! A client's processes belong to its *session*. A connection is attached to a
//! session, may be lost, and another one may resume the session; a session that
//! nobody has been heard of for its *lease* is ended with everything in it.
//!
//! ```text
//!  listener ── accepts, TLS, HTTP upgrade, token ──▶ connection ── frames ──▶ session
//!                                                                              │ owns
//!                                                       process: pumps, log ◀──┘
//! ```
//!
//! Every buffer has a bound: an output stream stops being read when its
//! reader is a window behind, a connection stops being read when its answers
//! are not taken, and what all of it takes together comes out of one `budget`.

mod accept;
mod admission;
mod audit;
mod budget;
mod connection;
mod dispatch;
mod doubts;
mod environment;
mod event;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod host;
mod http;
mod interrupt;
mod limits;
mod log;
mod metadata;
mod metrics;
mod origin;
mod places;
mod private;
mod process;
mod pump;
mod registry;
mod reload;
mod restrictions;
mod scrape;
mod session;
mod standing;
mod start;
mod stdin;
mod tls;
mod token;
mod unix;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mcp_lifecycle_core::launch::{ReapError, ReapReport, ServerLauncher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use accept::Listener;
pub use limits::Limits;
pub use metrics::{Metrics, TokenMetrics};
pub use scrape::MetricsListener;
pub use tls::{TlsError, TlsIdentity};
pub use token::{Token, TokenError};

use self::budget::Budget;
use self::doubts::Doubts;
use self::limits::Allowance;
use self::metrics::{Counters, now};
use self::origin::Origin;
use self::registry::Registry;
use crate::link::LineLink;
use crate::mutex::Mutex;

/// The daemon: what all listeners share.
///
/// # Drop
///
/// Nothing is ended by dropping a clone; call [`shutdown`](Self::shutdown).
#[derive(Clone)]
pub struct Daemon {
    shared: Arc<Shared>,
}

struct Shared {
    launcher: Arc<dyn ServerLauncher>,
    limits: Arc<Limits>,
    registry: Registry,
    counters: Arc<Counters>,
    /// Processes that are not proven gone.
    doubts: Arc<Doubts>,
    /// Nothing is left of an earlier daemon.
    swept: AtomicBool,
    /// The memory that all clients together may fill.
    budget: Arc<Budget>,
    /// Places for processes.
    places: Arc<Semaphore>,
    /// Whose turn it is to work out a costly environment.
    resolving: tokio::sync::Mutex<()>,
    /// No more connections, sessions and processes.
    closing: CancellationToken,
    /// The connections there are end.
    stopping: CancellationToken,
    /// Those that may have something to say.
    connections: TaskTracker,
    /// Cancelled when everything has to end at once.
    hurry: CancellationToken,
    /// Everything has ended.
    over: CancellationToken,
    /// Those that serve. They are kept until everything has ended: who answers at
    /// their addresses answers for what was started there.
    listeners: Mutex<Vec<Arc<Listener>>>,
}

impl Shared {
    /// See [`host::machine`].
    fn machine(&self) -> Option<String> {
        let address = self.listeners.lock().first()?.url().ok()?;
        host::machine(&address)
    }

    /// The bounds of each share.
    fn allowance(&self) -> Allowance {
        let listeners = self.listeners.lock();
        let tokens = listeners.iter().flat_map(|listener| listener.tokens());
        let names: HashSet<_> = tokens.map(Token::name).collect();
        self.limits.allowance(names.len())
    }

    fn give_addresses_back(&self) {
        let mut listeners = self.listeners.lock();
        self.over.cancel();
        listeners.clear();
    }

    async fn give_back_when_proven(self: Arc<Self>) {
        self.doubts.dispelled().await;
        self.give_addresses_back();
    }
}

impl Daemon {
    /// A daemon that starts processes through `launcher`.
    pub fn new(launcher: Arc<dyn ServerLauncher>, limits: Limits) -> Self {
        Self {
            shared: Arc::new(Shared {
                launcher,
                budget: Budget::new(limits.max_memory),
                places: Arc::new(Semaphore::new(
                    limits.max_processes_in_all.min(Semaphore::MAX_PERMITS),
                )),
                limits: Arc::new(limits),
                registry: Registry::default(),
                counters: Arc::default(),
                doubts: Arc::default(),
                swept: AtomicBool::new(false),
                resolving: tokio::sync::Mutex::new(()),
                closing: CancellationToken::new(),
                stopping: CancellationToken::new(),
                connections: TaskTracker::new(),
                hurry: CancellationToken::new(),
                over: CancellationToken::new(),
                listeners: Mutex::default(),
            }),
        }
    }

    /// Ends what an earlier daemon left behind. To be done after a listener was bound
    /// and before it serves: a client of one that had the address before is told that
    /// nothing of its session is left, if this search was complete.
    ///
    /// # Errors
    ///
    /// As [`ServerLauncher::reap_orphans`].
    ///
    /// # Cancel safety
    ///
    /// As [`ServerLauncher::reap_orphans`].
    pub async fn sweep(&self) -> Result<ReapReport, ReapError> {
        let report = self.shared.launcher.reap_orphans().await?;
        let complete = report.is_complete();
        self.shared.swept.store(complete, Ordering::Release);
        Ok(report)
    }

    /// Serves one client on a pair of streams until they end, then ends its
    /// processes: a pipe cannot come back.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the connection, and the lease its processes.
    pub async fn serve_stdio(
        &self,
        read: impl AsyncRead + Send + Unpin + 'static,
        write: impl AsyncWrite + Send + Unpin + 'static,
    ) {
        let link = LineLink::new(read, write, self.shared.limits.max_frame);
        let kind = connection::Kind::Pipe;
        let _ = connection::serve(&self.shared, Box::new(link), kind, Origin::Stdio, None).await;
    }

    /// The daemon's numbers now.
    pub fn metrics(&self) -> Metrics {
        let Shared {
            limits,
            registry,
            counters,
            ..
        } = &*self.shared;
        let (started, gone) = (now(&counters.started), now(&counters.gone));
        Metrics {
            connections: now(&counters.connections),
            connections_refused_total: now(&counters.refused),
            sessions: registry.count() as u64,
            sessions_limit: limits.max_sessions as u64,
            processes: started.saturating_sub(gone),
            processes_per_session_limit: limits.max_processes as u64,
            processes_started_total: started,
            processes_refused_total: now(&counters.not_started),
            processes_gone_total: gone,
            processes_unproven_total: now(&counters.unproven),
            memory_bytes: self.shared.budget.used() as u64,
            memory_limit_bytes: limits.max_memory as u64,
            received_bytes_total: now(&counters.received),
            sent_bytes_total: now(&counters.sent),
            tokens: registry.tokens(),
        }
    }

    /// Ends every process, tells its client, then ends the sessions and
    /// connections. A client that is there gets every exit and proof before
    /// the good-bye; it has two seconds to take them.
    ///
    /// Returns how many processes of this daemon are not proven gone; their clients
    /// and the log have the reasons. As long as there are any, the addresses stay taken and
    /// whoever comes is sent away: another daemon there could not look for what a living
    /// host has started, and would say that nothing is left.
    ///
    /// # Cancel safety
    ///
    /// The ends go on; a second call waits for them.
    pub async fn shutdown(&self) -> usize {
        let shared = &self.shared;
        shared.closing.cancel();
        shared.registry.wind_down().await;
        shared.stopping.cancel();
        shared.registry.end_all().await;
        // This program may exit at once, and a good-bye that stays here is none.
        shared.connections.close();
        let said = shared.connections.wait();
        let _ = tokio::time::timeout(connection::FAREWELL, said).await;
        let unproven = shared.doubts.count();
        match unproven {
            0 => shared.give_addresses_back(),
            _ => drop(tokio::spawn(Arc::clone(shared).give_back_when_proven())),
        }
        unproven
    }

    /// Makes a [`shutdown`](Self::shutdown) that is under way skip its graces.
    pub fn hurry(&self) {
        self.shared.hurry.cancel();
    }
}

impl fmt::Debug for Daemon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Daemon")
            .field("launcher", &self.shared.launcher)
            .field("limits", &self.shared.limits)
            .finish_non_exhaustive()
    }
}
