//! Record of the servers that this user's wrappers have started: how each was ended, as its guardian
//! has recorded it.
//!
//! It is a ring of fixed size in the state directory: the oldest records are overwritten. The
//! servers of a launcher are not in it; their hosts have a report for each.

use std::time::{Duration, SystemTime};

use super::report::Unknown;
pub use super::ring::history as look;

/// Records of started servers.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct History {
    /// Oldest first.
    pub servers: Vec<PastServer>,
    /// The entries that could not be read, and why.
    pub unknown: Vec<Unknown>,
}

/// A server that was started.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PastServer {
    /// [`KnownServer::id`](super::known::KnownServer::id).
    pub id: String,
    /// The name of the server: at most forty arbitrary bytes.
    pub name: String,
    /// Time of the start.
    pub started: SystemTime,
    /// Its end; `None` while it runs, and for ever if its guardian was killed.
    pub end: Option<End>,
}

/// The end of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct End {
    /// Time at which nothing of the server was left.
    pub at: SystemTime,
    /// SIGTERM was sent to all of its processes.
    pub asked: bool,
    /// SIGKILL was sent to all of its processes.
    pub killed: bool,
    /// Its host had ended, or had killed the wrapper.
    pub host_gone: bool,
    /// Nothing of it is left; `false` if its cgroup could not be emptied.
    pub is_proven: bool,
    /// The kernel has killed it for exceeding its memory limit.
    pub out_of_memory: bool,
    /// The exit code of its main process, if that has exited.
    pub code: Option<i32>,
    /// The signal that has ended its main process, if one has.
    pub signal: Option<i32>,
    /// The number of other processes that had to be ended.
    pub swept: u32,
    /// The time from the first signal to its end.
    pub took: Duration,
}
