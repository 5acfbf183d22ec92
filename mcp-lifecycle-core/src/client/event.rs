//! Events of servers, the same for a client, a manager and a pool.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{Era, StartError};
use crate::launch::macros::debug_fields;
use crate::launch::{ExitStatus, LaunchProgress, ServerIdentity};
use crate::terminate::callback::guarded;
use crate::terminate::{EndReason, TerminateError, TerminationReport};

/// An event of a server.
///
/// The events of one server are ordered. In a manager or a pool, every
/// [`Starting`](ServerEventKind::Starting) is followed by one [`Ended`](ServerEventKind::Ended) of
/// the same generation, after as many [`Unproven`](ServerEventKind::Unproven) as attempts fail. A
/// standalone client tries once and reports `Ended` or `Unproven`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerEvent {
    /// The server's name.
    pub server: Arc<str>,
    /// The owner: the name of the manager or pool, and the scope; empty for a standalone client.
    pub owner: Arc<str>,
    /// The number of this process among those of its server, from 1.
    pub generation: u64,
    /// The event itself.
    pub kind: ServerEventKind,
}

/// The events in the life of a server.
#[derive(Debug, Clone, displaydoc::Display)]
#[non_exhaustive]
#[expect(missing_docs, reason = "names and messages say it")]
pub enum ServerEventKind {
    #[displaydoc("starting ({why})")]
    Starting { why: StartReason },
    #[displaydoc("{0}")]
    Progress(LaunchProgress),
    /// The server runs; the handshake begins.
    #[displaydoc("launched in {took:.1?} ({identity})")]
    Launched {
        identity: ServerIdentity,
        /// The time of the launch, without the fetch before it.
        took: Duration,
    },
    #[displaydoc("ready after {took:.1?} ({identity})")]
    Ready {
        identity: ServerIdentity,
        era: Era,
        took: Duration,
    },
    #[displaydoc("failed: {error}")]
    Failed { error: StartError },
    /// The start was abandoned.
    #[displaydoc("start cancelled ({reason})")]
    Cancelled { reason: EndReason },
    #[displaydoc("exited by itself: {exit}")]
    Exited { exit: ExitStatus },
    /// Its end has begun, on request or after its death.
    #[displaydoc("ending ({reason})")]
    Ending { reason: EndReason },
    #[displaydoc("{error}")]
    Unproven { error: TerminateError },
    /// Nothing of it is left.
    #[displaydoc("{result} ({reason})")]
    Ended {
        reason: EndReason,
        result: EndResult,
    },
}

/// The reason a server was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, displaydoc::Display)]
#[non_exhaustive]
#[expect(missing_docs, reason = "names and messages say it")]
pub enum StartReason {
    #[displaydoc("declared")]
    Declared,
    /// A caller wants to use it.
    #[displaydoc("wanted")]
    Wanted,
    #[displaydoc("restart after failure {failures}")]
    Restart { failures: u32 },
}

/// The evidence of the end of a server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum EndResult {
    /// The proof.
    Proven(Arc<TerminationReport>),
    /// The launch failed or was abandoned, which leaves nothing by the launcher's contract.
    NeverLaunched,
    /// The runtime ended, and the server was killed without waiting for proof.
    RuntimeLost,
    /// The proof was given up, by
    /// [`ServerManager::write_off`](crate::fleet::ServerManager::write_off) or a pool's.
    WrittenOff(TerminateError),
}

impl ServerEventKind {
    /// Returns a stable name for logs and metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Starting { .. } => "starting",
            Self::Progress(_) => "progress",
            Self::Launched { .. } => "launched",
            Self::Ready { .. } => "ready",
            Self::Failed { .. } => "failed",
            Self::Cancelled { .. } => "cancelled",
            Self::Exited { .. } => "exited",
            Self::Ending { .. } => "ending",
            Self::Unproven { .. } => "unproven",
            Self::Ended { .. } => "ended",
        }
    }
}

impl fmt::Display for ServerEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.server)?;
        if !self.owner.is_empty() {
            write!(f, " of {}", self.owner)?;
        }
        write!(f, ": {}", self.kind)
    }
}

impl fmt::Display for EndResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Proven(report) => write!(f, "ended in {:.1?}, {}", report.took, report.exit),
            Self::NeverLaunched => f.write_str("ended before it was launched"),
            Self::RuntimeLost => f.write_str("killed, for its runtime went away"),
            Self::WrittenOff(error) => write!(f, "written off without proof: {error}"),
        }
    }
}

/// Observes the servers of a client, a manager or a pool.
///
/// Called synchronously, never under a lock. It must be quick and not block, and may call anything
/// of this crate; a panic is caught and logged. Any `Fn(&ServerEvent)` is an observer.
pub trait ServerObserver: Send + Sync + 'static {
    /// Receives an event.
    fn on_event(&self, event: &ServerEvent);

    /// Receives a line of stderr, cut to the limit, with invalid UTF-8 replaced.
    fn on_stderr(&self, owner: &str, server: &str, line: &str) {
        let _ = (owner, server, line);
    }
}

impl<F: Fn(&ServerEvent) + Send + Sync + 'static> ServerObserver for F {
    fn on_event(&self, event: &ServerEvent) {
        self(event);
    }
}

impl<T: ServerObserver + ?Sized> ServerObserver for Arc<T> {
    fn on_event(&self, event: &ServerEvent) {
        (**self).on_event(event);
    }
    fn on_stderr(&self, owner: &str, server: &str, line: &str) {
        (**self).on_stderr(owner, server, line);
    }
}

#[derive(Clone)]
pub(crate) struct Observed {
    pub(crate) server: Arc<str>,
    pub(crate) owner: Arc<str>,
    pub(crate) generation: u64,
    pub(crate) observer: Option<Arc<dyn ServerObserver>>,
    /// `true` if a manager or a pool decides on its starts and ends, and reports them.
    pub(crate) managed: bool,
}

impl Observed {
    pub(crate) fn standalone(server: &str) -> Self {
        Self {
            server: server.into(),
            owner: "".into(),
            generation: 1,
            observer: None,
            managed: false,
        }
    }

    /// Reports an event of the client, unless its manager or pool reports it.
    pub(crate) fn event(&self, kind: ServerEventKind) {
        use ServerEventKind::{Exited, Launched, Progress};
        if !self.managed || matches!(kind, Progress(_) | Launched { .. } | Exited { .. }) {
            self.report(kind);
        }
    }

    pub(crate) fn report(&self, kind: ServerEventKind) {
        let Some(observer) = &self.observer else {
            return;
        };
        let event = ServerEvent {
            server: Arc::clone(&self.server),
            owner: Arc::clone(&self.owner),
            generation: self.generation,
            kind,
        };
        guarded("an observer", &self.server, || observer.on_event(&event));
    }

    pub(crate) fn stderr(&self, line: &str) {
        if let Some(observer) = &self.observer {
            guarded("an observer", &self.server, || {
                observer.on_stderr(&self.owner, &self.server, line);
            });
        }
    }
}

debug_fields! { Observed, it { server: &it.server } }
