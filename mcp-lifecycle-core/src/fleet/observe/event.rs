//! What an observer is told.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::outcome::{EndResult, RefreshReport};
use crate::client::error::start::StartError;
use crate::launch::identity::ServerIdentity;
use crate::terminate::error::TerminateError;
use crate::terminate::report::EndReason;

/// Something happened to a server of a manager or a pool.
///
/// The events of one server come in order. Every [`Starting`] is followed, in
/// the end, by one [`Ended`] of the same generation, whatever happens between;
/// after an [`Unproven`] the end is tried again until it is proven.
///
/// [`Starting`]: ServerEventKind::Starting
/// [`Ended`]: ServerEventKind::Ended
/// [`Unproven`]: ServerEventKind::Unproven
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerEvent {
    /// The server's name.
    pub server: Arc<str>,
    /// Whose it is: the name of the manager or pool, and the scope.
    pub owner: Arc<str>,
    /// Which process of this server it is, from 1.
    pub generation: u64,
    /// What happened.
    pub kind: ServerEventKind,
}

/// What happened to a server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ServerEventKind {
    /// It is being started.
    Starting {
        /// Why.
        why: StartReason,
    },
    /// It is ready for calls.
    Ready {
        /// Who it is.
        identity: ServerIdentity,
        /// How long the start took.
        took: Duration,
    },
    /// It could not be started.
    Failed {
        /// Why.
        error: Arc<StartError>,
    },
    /// Its start was given up.
    Cancelled {
        /// Why.
        reason: EndReason,
    },
    /// Its end has begun, or it has died and what is left of it is being ended.
    Ending {
        /// Why.
        reason: EndReason,
    },
    /// It is not proven gone. It still counts, and is tried again.
    Unproven {
        /// What may be left.
        error: TerminateError,
    },
    /// Nothing of it is left.
    Ended {
        /// Why it was ended.
        reason: EndReason,
        /// What is known of the end.
        result: EndResult,
    },
}

/// Why a server was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartReason {
    /// It is declared.
    Declared,
    /// Somebody wants to lease it.
    Wanted,
    /// It failed before.
    Restart {
        /// Failures in a row.
        failures: u32,
    },
}

impl ServerEventKind {
    /// A stable name for logs and metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Starting { .. } => "starting",
            Self::Ready { .. } => "ready",
            Self::Failed { .. } => "failed",
            Self::Cancelled { .. } => "cancelled",
            Self::Ending { .. } => "ending",
            Self::Unproven { .. } => "unproven",
            Self::Ended { .. } => "ended",
        }
    }
}

impl fmt::Display for ServerEventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Starting { why } => write!(f, "starting ({why})"),
            Self::Ready { identity, took } => write!(f, "ready after {took:.1?} ({identity})"),
            Self::Failed { error } => {
                write!(f, "failed: {error}")
            }
            Self::Cancelled { reason } => write!(f, "start cancelled ({reason})"),
            Self::Ending { reason } => write!(f, "ending ({reason})"),
            Self::Unproven { error } => write!(f, "{error}"),
            Self::Ended { reason, result } => match result {
                EndResult::Proven(report) => {
                    write!(
                        f,
                        "ended ({reason}) after {:.1?}: {}",
                        report.took, report.exit
                    )
                }
                EndResult::NeverLaunched => write!(f, "ended ({reason}) before it was launched"),
                EndResult::RuntimeLost => write!(f, "killed ({reason}): the runtime went away"),
            },
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

/// Is told what happens to the servers of a manager or a pool.
///
/// Called synchronously from the task that makes it happen, never under a lock
/// of the manager or pool: be quick, do not block. It may call the manager or pool; a
/// panic in it is caught and logged. Any `Fn(&ServerEvent)` is an observer.
pub trait ServerObserver: Send + Sync + 'static {
    /// Something happened.
    fn on_event(&self, event: &ServerEvent);

    /// A refresh of the manager `owner` has settled: the summary after the
    /// events of its servers. Not told when the caller has dropped the refresh.
    fn on_refreshed(&self, owner: &str, report: &RefreshReport) {
        let _ = (owner, report);
    }

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
