//! The executor daemon: codex's exec-server protocol with negotiated extensions. The parts of the
//! program `mcp-executor`, and no API: anything here may change.
//!
//! A client's processes belong to its *session*. A lost connection can be replaced by another one
//! that resumes the session. A session with a client that is silent for its *lease* is ended with
//! everything in it.
//!
//! ```text
//!  listener ── accepts, TLS, HTTP upgrade, token ──▶ connection ── frames ──▶ session
//!                                                                              │ owns
//!                                                       process: pumps, log ◀──┘
//! ```
//!
//! Every buffer is bounded: an output stream is not read while its reader is a window behind, a
//! connection is not read while its answers are unread, and the total is bounded by a `quota`.

#![forbid(unsafe_code)]
#![expect(missing_debug_implementations, reason = "public for the program alone")]

mod accept;
mod admission;
mod audit;
mod connection;
mod dispatch;
mod doubts;
mod environment;
mod event;
#[cfg(fuzzing)]
#[path = "../../fuzz/src/daemon/mod.rs"]
pub mod fuzzing;
mod host;
mod http;
mod limits;
mod log;
mod metadata;
mod metrics;
mod origin;
mod private;
mod pump;
mod quota;
mod registry;
mod reload;
mod restrictions;
mod session;
mod start;
mod stdin;
mod tls;
mod token;
mod unix;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mcp_lifecycle_core::launch::{ReapError, ReapReport, ServerLauncher};
use mcp_lifecycle_core::lock::Lock;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use accept::Listener;
pub use limits::Limits;
pub use metrics::MetricsListener;
pub use tls::TlsIdentity;
pub use token::Token;

use self::doubts::Doubts;
use self::metrics::Counters;
use self::origin::{Origin, Share};
use self::quota::Account;
use self::registry::Registry;
use crate::link::LineLink;
use mcp_launcher_executor::wire::{self, link, protocol};

/// The daemon, shared by all listeners.
#[derive(Clone)]
pub struct Daemon {
    shared: Arc<Shared>,
}

struct Shared {
    launcher: Arc<dyn ServerLauncher>,
    limits: Arc<Limits>,
    registry: Registry,
    counters: Arc<Counters>,
    doubts: Arc<Doubts>,
    /// `true` if nothing of an earlier daemon is left.
    swept: AtomicBool,
    /// Cancelled when no more connections, sessions and processes are accepted.
    closing: CancellationToken,
    stopping: CancellationToken,
    connections: TaskTracker,
    hurry: CancellationToken,
    over: CancellationToken,
    /// The serving listeners, kept until everything has ended: the daemon at their addresses is
    /// responsible for everything started there.
    listeners: Lock<Vec<Arc<Listener>>>,
}

impl Shared {
    fn machine(&self) -> Option<String> {
        let address = self.listeners.lock().first()?.url().ok()?;
        host::machine(&address)
    }

    fn account(&self, of: &Share) -> Arc<Account> {
        self.registry.account(of, || {
            let listeners = self.listeners.lock();
            let tokens = listeners.iter().flat_map(|listener| listener.tokens());
            let names: HashSet<_> = tokens.map(Token::name).collect();
            Account::new(&self.limits, names.len())
        })
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
    /// Creates a daemon that starts processes by `launcher`.
    pub fn new(launcher: Arc<dyn ServerLauncher>, limits: Limits) -> Self {
        Self {
            shared: Arc::new(Shared {
                launcher,
                limits: Arc::new(limits),
                registry: Registry::default(),
                counters: Arc::default(),
                doubts: Arc::default(),
                swept: AtomicBool::new(false),
                closing: CancellationToken::new(),
                stopping: CancellationToken::new(),
                connections: TaskTracker::new(),
                hurry: CancellationToken::new(),
                over: CancellationToken::new(),
                listeners: Lock::default(),
            }),
        }
    }

    /// Ends what an earlier daemon left. Call it after binding a listener and before serving: if
    /// the search is complete, clients of the earlier daemon at that address are told that nothing
    /// of their session is left.
    pub async fn sweep(&self) -> Result<ReapReport, ReapError> {
        let report = self.shared.launcher.reap_orphans().await?;
        let complete = report.is_complete();
        self.shared.swept.store(complete, Ordering::Release);
        Ok(report)
    }

    /// Serves one client on a pair of streams until they end, then ends its processes, as a pipe
    /// cannot be resumed.
    pub async fn serve_stdio(
        &self,
        read: impl AsyncRead + Send + Unpin + 'static,
        write: impl AsyncWrite + Send + Unpin + 'static,
    ) {
        let link = LineLink::new(read, write, self.shared.limits.max_frame);
        let _ = connection::serve(&self.shared, Box::new(link), Origin::Stdio, None).await;
    }

    /// Returns current metrics in the OpenMetrics text format.
    pub fn metrics(&self) -> String {
        metrics::text(&self.shared)
    }

    /// Ends every process, then the sessions and connections. A connected client first gets every
    /// exit and proof; it has two seconds to read them.
    ///
    /// Returns how many processes are not proven gone; their clients and the log have the reasons.
    /// While there are any, the addresses stay taken and clients are refused: another daemon there
    /// could not search for a living host's processes, and would report that nothing is left.
    pub async fn shutdown(&self) -> usize {
        let shared = &self.shared;
        shared.closing.cancel();
        shared.registry.wind_down().await;
        shared.stopping.cancel();
        shared.registry.end_all().await;
        // The program may exit at once, so wait for the farewells.
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

    /// Makes a [`shutdown`](Self::shutdown) in progress skip its graces.
    pub fn hurry(&self) {
        self.shared.hurry.cancel();
    }
}
