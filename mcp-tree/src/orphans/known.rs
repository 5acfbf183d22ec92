//! Lists this user's running servers and those left by dead hosts, and stops them. A server is known
//! by the ledger of its host and by the identity in its environment, never by a name.

use std::path::PathBuf;
use std::time::Duration;

pub use super::{
    companion, inventory as look, stop, stop_unclaimed, unclaimed,
    without_server as companions_without_server,
};
use crate::identity::Cookie;
use mcp_lifecycle_core::launch::UnknownRemnant;

/// Servers that `look` found.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Inventory {
    /// Running servers, and those of dead hosts of which something is left; sorted by host and age.
    pub servers: Vec<KnownServer>,
    /// The places that could not be examined, and why.
    pub unknown: Vec<UnknownRemnant>,
}

#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct KnownServer {
    /// Sixteen digits, unique on this machine.
    pub id: String,
    /// The display name, while its wrapper lives: arbitrary bytes.
    pub name: Option<String>,
    /// The file that its standard error is appended to, while its wrapper lives.
    pub log: Option<PathBuf>,
    pub host: KnownHost,
    /// Its main process, as its host has recorded it.
    pub leader: Option<u32>,
    /// The guardian that ends it when its host dies.
    pub guardian: Option<u32>,
    pub in_cgroup: bool,
    /// `true` if it is in a process group, which a watcher ends when its host dies.
    pub in_group: bool,
    /// All its processes, oldest first, without the guardian.
    pub processes: Vec<KnownProcess>,
    pub(crate) cookie: Cookie,
    pub(crate) leaf: Option<PathBuf>,
    /// Its own process on record, by number and start time.
    pub(crate) recorded: Option<(u32, u64)>,
    /// Why its cgroup is not found.
    pub(crate) unfound: Option<String>,
}

/// A process that launches servers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KnownHost {
    /// Process ID.
    pub pid: u32,
    /// The name that the process gives itself, if it lives.
    pub name: Option<String>,
    /// The process that started it, by pid and name, if it lives.
    pub parent: Option<(u32, String)>,
    /// `true` if it is a wrapper of one server: its parent is the user of the server.
    pub is_wrapper: bool,
    /// `true` if it is a wrapper with a companion, or lives and that cannot be found out.
    pub has_companion: bool,
    pub state: HostState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostState {
    /// It holds its ledger.
    Alive,
    /// Its ledger can be locked: it is dead, and the remains of its servers are orphans.
    Dead,
    /// It has no ledger, so its death cannot be proven.
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KnownProcess {
    /// Process ID.
    pub pid: u32,
    pub parent: u32,
    /// The name that the process gives itself, sixteen bytes at most.
    pub name: String,
    pub age: Duration,
    /// Its share of the memory that it uses (PSS), in bytes; `None` if that cannot be read.
    pub memory: Option<u64>,
    /// Processor time since it started, without its children's.
    pub cpu: Duration,
    /// `true` if it is kept when its server ends, by its name or that of an ancestor.
    pub is_kept: bool,
    pub(crate) start_time: u64,
}

/// A process of this user that may have been left by a host without containment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unclaimed {
    /// The topmost process. It carries no identity, its parent has died, its standard input is a pipe
    /// or a Unix socket with the other end closed, neither it nor a descendant listens on a socket,
    /// and it belongs to no service manager.
    pub process: KnownProcess,
    pub descendants: Vec<KnownProcess>,
}

/// The result of stopping a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StopReport {
    /// Processes that were asked to end, with SIGTERM.
    pub asked: usize,
    /// Processes that had to be killed, with SIGKILL.
    pub killed: usize,
    pub survivors: Vec<KnownProcess>,
    /// Why it is not known whether something is left.
    pub unknown: Option<String>,
    pub took: Duration,
}

impl KnownProcess {
    /// Returns whether both are the same process, at two moments.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.pid, self.start_time) == (other.pid, other.start_time)
    }

    /// Reads its program and arguments, which may hold secrets; empty if it has gone, has overwritten
    /// them, or they cannot be read.
    pub fn command_line(&self) -> Vec<String> {
        super::command_line(self.pid, self.start_time).unwrap_or_default()
    }
}

impl KnownServer {
    /// Reads the program and arguments of its host, as those of a [process](KnownProcess::command_line).
    pub fn host_command_line(&self) -> Vec<String> {
        let host = self.cookie.host();
        super::command_line(host.pid(), host.start_time()).unwrap_or_default()
    }

    pub fn age(&self) -> Duration {
        let ages = self.processes.iter().map(|process| process.age);
        ages.max().unwrap_or_default()
    }

    /// Returns the memory that its processes use together, in bytes, as far as it can be read.
    pub fn memory(&self) -> u64 {
        self.processes
            .iter()
            .filter_map(|process| process.memory)
            .sum()
    }

    pub fn cpu(&self) -> Duration {
        self.processes.iter().map(|process| process.cpu).sum()
    }
}

impl StopReport {
    /// Returns whether nothing of the server is left, and every process that may be its could be
    /// examined.
    pub fn is_gone(&self) -> bool {
        self.survivors.is_empty() && self.unknown.is_none()
    }
}
