//! Record of the servers that this user's [`Wrapper`](crate::Wrapper)s have started: how each was ended, as its guardian has written it down. Linux only; elsewhere
//! the call is an error.
//!
//! It is a ring of fixed size in the state directory: the oldest go first. The servers of a [`LocalLauncher`](crate::LocalLauncher) are not in it; their hosts have a report for each.

use std::io;
use std::time::{Duration, SystemTime};

use mcp_lifecycle_core::launch::UnknownRemnant;

use crate::orphans;

/// Records of started servers.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct History {
    /// Oldest first.
    pub servers: Vec<PastServer>,
    /// The entries that could not be read, and why.
    pub unknown: Vec<UnknownRemnant>,
}

/// A server that was started.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PastServer {
    /// [`KnownServer::id`](crate::inventory::KnownServer::id).
    pub id: String,
    /// The name of the server, forty bytes at most, of anybody's choice.
    pub name: String,
    /// Time of the start.
    pub started: SystemTime,
    /// How it has ended; `None` while it runs, and for ever if its guardian was killed.
    pub end: Option<End>,
}

/// How a server has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct End {
    /// Time at which nothing of the server was left.
    pub at: SystemTime,
    /// It was asked to, by SIGTERM to all of its processes.
    pub asked: bool,
    /// It was killed, by SIGKILL to all of its processes.
    pub killed: bool,
    /// Its host was gone, or had killed the wrapper.
    pub host_gone: bool,
    /// Whether nothing of it is left. `false` if its cgroup could not be emptied.
    pub is_proven: bool,
    /// The kernel has killed it, because it needed more than its [limit of memory](crate::Wrapper::memory).
    pub out_of_memory: bool,
    /// The exit code of its own process, if that has exited.
    pub code: Option<i32>,
    /// The signal that has ended its own process, if one has.
    pub signal: Option<i32>,
    /// Processes other than its own that had to be ended.
    pub swept: u32,
    /// The time from the first signal to its end.
    pub took: Duration,
}

/// Reads the record. Blocks for a few milliseconds.
///
/// # Errors
///
/// The system is not Linux. A directory that cannot be read is [unknown](History::unknown), and what is in a ring and no record is passed over.
pub fn look() -> io::Result<History> {
    orphans::history()
}
