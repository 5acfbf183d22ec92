use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::launch::ServerIdentity;
use crate::terminate::EndReason;

/// The state of one server, and why it is alive.
#[derive(Debug, Clone)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the field has its name")]
pub struct ServerRecord {
    pub server: Arc<str>,
    /// The owner: the name of the manager or pool, and the scope.
    pub owner: Arc<str>,
    pub launcher: String,
    /// The command, for people; likely secrets are masked.
    pub command: String,
    pub state: ServerState,
    /// The reason it is alive, or still listed.
    pub kept_by: KeptBy,
    /// Its identity: pid, container ID.
    pub identity: Option<ServerIdentity>,
    /// The number of this process among those of its server, from 1; 0 before the first.
    pub generation: u64,
    pub leases: usize,
    pub waiting: usize,
    pub in_flight: usize,
    /// Time since the start of the process began.
    pub age: Option<Duration>,
    /// Time since it was last leased or declared.
    pub last_use: Duration,
    pub failures: u32,
    /// Time until it may start again.
    pub next_attempt: Option<Duration>,
    pub last_error: Option<String>,
}

/// The state of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the words of a slot")]
pub enum ServerState {
    Queued,
    Starting,
    Ready,
    Ending,
    /// Not proven gone; the end is retried.
    Unproven,
    Backoff,
    Exhausted,
}

/// The reason a server is alive, or still listed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the reason has its name")]
pub enum KeptBy {
    Declared,
    Leases,
    /// A call is in flight, without a lease.
    Calls,
    Waiters,
    IdleTime,
    Ending(EndReason),
    Memory,
}

impl ServerState {
    /// Returns a stable name for logs and metrics.
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
