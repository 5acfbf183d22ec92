//! Events for an observer: the same for a client, a manager and a pool.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::era::Era;
use super::error::start::StartError;
use crate::launch::context::LaunchProgress;
use crate::launch::exit::ExitStatus;
use crate::launch::identity::ServerIdentity;
use crate::terminate::callback::guarded;
use crate::terminate::error::TerminateError;
use crate::terminate::report::{EndReason, TerminationReport};

/// Something happened to a server.
///
/// The events of one server come in order. In a manager or a pool every [`Starting`] is
/// followed, in the end, by one [`Ended`] of the same generation, whatever happens
/// between; after an [`Unproven`] the end is tried again until it is proven, or written off. A client
/// of its own tells `Ended` or `Unproven` of what was launched, and tries once.
///
/// [`Starting`]: ServerEventKind::Starting
/// [`Ended`]: ServerEventKind::Ended
/// [`Unproven`]: ServerEventKind::Unproven
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerEvent {
    /// The server's name.
    pub server: Arc<str>,
    /// The owner: the name of the manager or pool, and the scope; empty for a client
    /// of its own.
    pub owner: Arc<str>,
    /// The number of this process among those of its server, from 1.
    pub generation: u64,
    /// The event itself.
    pub kind: ServerEventKind,
}

/// The events in the life of a server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ServerEventKind {
    /// The server is being started.
    Starting {
        /// The reason.
        why: StartReason,
    },
    /// Its launcher has come further, fetching what it needs or launching.
    Progress(LaunchProgress),
    /// The server runs; the handshake begins.
    Launched {
        /// The identity of the server.
        identity: ServerIdentity,
        /// The time the launch took, without what was fetched before.
        took: Duration,
    },
    /// The server is ready for calls.
    Ready {
        /// The identity of the server.
        identity: ServerIdentity,
        /// The era of the protocol it speaks.
        era: Era,
        /// The time launch and handshake took.
        took: Duration,
    },
    /// The server could not be started.
    Failed {
        /// The reason.
        error: StartError,
    },
    /// Its start was given up.
    Cancelled {
        /// The reason.
        reason: EndReason,
    },
    /// Its main process exited by itself.
    Exited {
        /// The exit status.
        exit: ExitStatus,
    },
    /// Its end has begun, or it has died and what is left of it is being ended.
    Ending {
        /// The reason.
        reason: EndReason,
    },
    /// The server is not proven gone.
    Unproven {
        /// The error, which names what may be left.
        error: TerminateError,
    },
    /// Nothing of it is left.
    Ended {
        /// The reason it was ended.
        reason: EndReason,
        /// The evidence of the end.
        result: EndResult,
    },
}

/// The reason a server was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartReason {
    /// The server is declared.
    Declared,
    /// Somebody wants to use it.
    Wanted,
    /// The server failed before.
    Restart {
        /// Failures in a row.
        failures: u32,
    },
}

/// The evidence of the end of a server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum EndResult {
    /// The proof.
    Proven(Arc<TerminationReport>),
    /// There was nothing yet to end: the launch failed, or was given up, which
    /// by the launcher's contract leaves nothing.
    NeverLaunched,
    /// The runtime went away, and the server was killed without waiting for proof.
    RuntimeLost,
    /// Somebody has given up the proof, which had this reason not to come: by
    /// [`ServerManager::write_off`](crate::fleet::ServerManager::write_off), or that of a pool.
    WrittenOff(TerminateError),
}

impl ServerEventKind {
    /// A stable name for logs and metrics.
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

/// `files of agent: ready after 12.3ms (pid 7)`.
impl fmt::Display for ServerEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.server)?;
        if !self.owner.is_empty() {
            write!(f, " of {}", self.owner)?;
        }
        write!(f, ": {}", self.kind)
    }
}

impl fmt::Display for ServerEventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Starting { why } => write!(f, "starting ({why})"),
            Self::Progress(progress) => progress.fmt(f),
            Self::Launched { identity, took } => write!(f, "launched in {took:.1?} ({identity})"),
            Self::Ready { identity, took, .. } => write!(f, "ready after {took:.1?} ({identity})"),
            Self::Failed { error } => write!(f, "failed: {error}"),
            Self::Cancelled { reason } => write!(f, "start cancelled ({reason})"),
            Self::Exited { exit } => write!(f, "exited by itself: {exit}"),
            Self::Ending { reason } => write!(f, "ending ({reason})"),
            Self::Unproven { error } => error.fmt(f),
            Self::Ended { reason, result } => write!(f, "{result} ({reason})"),
        }
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

impl fmt::Display for StartReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Declared => f.write_str("declared"),
            Self::Wanted => f.write_str("wanted"),
            Self::Restart { failures } => write!(f, "restart after failure {failures}"),
        }
    }
}

/// Observes the servers of a client, a manager or a pool.
///
/// Called synchronously from the task that makes it happen, never under a lock: be
/// quick, do not block. It may call anything of this crate; a panic in it is caught and
/// logged. Any `Fn(&ServerEvent)` is an observer.
pub trait ServerObserver: Send + Sync + 'static {
    /// Something happened.
    fn on_event(&self, event: &ServerEvent);

    /// A server of `owner` wrote a line to standard error: already cut to the limit,
    /// invalid UTF-8 replaced. Called for each line of each server, also while it starts.
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

/// One process of a server, for its observer.
#[derive(Clone)]
pub(crate) struct Observed {
    pub(crate) server: Arc<str>,
    pub(crate) owner: Arc<str>,
    pub(crate) generation: u64,
    pub(crate) observer: Option<Arc<dyn ServerObserver>>,
}

impl Observed {
    pub(crate) fn by_nobody(server: &str) -> Self {
        Self {
            server: server.into(),
            owner: "".into(),
            generation: 1,
            observer: None,
        }
    }

    pub(crate) fn event(&self, kind: ServerEventKind) {
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

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Observed").field(&self.server).finish()
    }
}
