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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, displaydoc::Display)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the words of a slot")]
pub enum ServerState {
    #[displaydoc("queued")]
    Queued,
    #[displaydoc("starting")]
    Starting,
    #[displaydoc("ready")]
    Ready,
    #[displaydoc("ending")]
    Ending,
    /// Not proven gone; the end is retried.
    #[displaydoc("unproven")]
    Unproven,
    #[displaydoc("backoff")]
    Backoff,
    #[displaydoc("exhausted")]
    Exhausted,
}

/// The reason a server is alive, or still listed.
#[derive(Debug, Clone, PartialEq, Eq, displaydoc::Display)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the reason has its name")]
pub enum KeptBy {
    #[displaydoc("declared")]
    Declared,
    #[displaydoc("leases")]
    Leases,
    /// A call is in flight, without a lease.
    #[displaydoc("calls in flight")]
    Calls,
    #[displaydoc("waiters")]
    Waiters,
    #[displaydoc("idle time")]
    IdleTime,
    #[displaydoc("ends: {0}")]
    Ending(EndReason),
    #[displaydoc("its failures")]
    Memory,
}
