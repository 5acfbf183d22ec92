//! One line of the list of servers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::launch::identity::ServerIdentity;
use crate::terminate::report::EndReason;

/// One server as it is now: what it is, whose, and why it is alive.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerRecord {
    /// The server's name.
    pub server: Arc<str>,
    /// The owner: the name of the manager or pool, and the scope.
    pub owner: Arc<str>,
    /// The launcher's name.
    pub launcher: String,
    /// The command, for people; what looks like a secret is blanked out.
    pub command: String,
    /// Its state.
    pub state: ServerState,
    /// The reason it is alive, or still listed.
    pub kept_by: KeptBy,
    /// Its identity: pid, container id.
    pub identity: Option<ServerIdentity>,
    /// The number of this process among those of its server, from 1; 0 before the first.
    pub generation: u64,
    /// Leases held.
    pub leases: usize,
    /// The number of callers that wait for a lease.
    pub waiting: usize,
    /// Requests that wait for an answer.
    pub in_flight: usize,
    /// Since the start of the process began.
    pub age: Option<Duration>,
    /// Since it was last leased, or declared.
    pub last_use: Duration,
    /// Failures in a row.
    pub failures: u32,
    /// Until it may start again.
    pub next_attempt: Option<Duration>,
    /// The last failure.
    pub last_error: Option<String>,
}

/// The state of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ServerState {
    /// The server is to start, and waits for its predecessor's end or for room.
    Queued,
    /// The server is being started.
    Starting,
    /// The server is ready for calls.
    Ready,
    /// The server is being ended.
    Ending,
    /// The server is not proven gone; the end is tried again.
    Unproven,
    /// The server failed and will start again.
    Backoff,
    /// The server failed too often.
    Exhausted,
}

/// The reason a server is alive, or still listed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeptBy {
    /// The server is declared.
    Declared,
    /// Somebody holds a lease.
    Leases,
    /// A call is in flight, though no lease is held.
    Calls,
    /// Somebody waits for it.
    Waiters,
    /// Nobody uses it, and its idle time is not over.
    IdleTime,
    /// The server ends for this reason.
    Ending(EndReason),
    /// Its failures are remembered.
    Memory,
}

impl ServerState {
    /// Returns whether a process exists or may exist.
    pub fn is_live(self) -> bool {
        matches!(
            self,
            Self::Starting | Self::Ready | Self::Ending | Self::Unproven
        )
    }

    /// A stable name for logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Ending => "ending",
            Self::Unproven => "unproven",
            Self::Backoff => "backoff",
            Self::Exhausted => "exhausted",
        }
    }
}

impl fmt::Display for ServerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Display for KeptBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Declared => "declared",
            Self::Leases => "leases",
            Self::Calls => "calls in flight",
            Self::Waiters => "waiters",
            Self::IdleTime => "idle time",
            Self::Ending(reason) => return f.pad(&format!("ends: {reason}")),
            Self::Memory => "its failures",
        };
        f.pad(text)
    }
}
