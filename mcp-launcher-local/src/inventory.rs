//! Lists this user's running servers and those left by dead hosts, and stops them: for tools that
//! people manage their machine with. Linux only; elsewhere every call is an error.
//!
//! A server is known by the ledger of its host and by the identity in its environment, never by a
//! name (`docs/orphans.md`).

use std::io;
use std::time::Duration;

#[cfg(target_os = "linux")]
use mcp_lifecycle_core::launch::Containment;
use mcp_lifecycle_core::launch::UnknownRemnant;

use crate::identity::Cookie;
use crate::orphans;
#[cfg(target_os = "linux")]
use crate::plan::Plan;

/// Servers that [`look`] found.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Inventory {
    /// Servers that run, and those of dead hosts of which something is left; by host and age.
    pub servers: Vec<KnownServer>,
    /// The places that could not be looked at, and why.
    pub unknown: Vec<UnknownRemnant>,
}

/// One server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct KnownServer {
    /// Sixteen digits, which no other server of this machine has.
    pub id: String,
    /// The display name ([`Wrapper::name`](crate::Wrapper::name)), while its wrapper lives: bytes of anybody's choice.
    pub name: Option<String>,
    /// The process that launched it.
    pub host: KnownHost,
    /// Its own process, as its host has written it down.
    pub leader: Option<u32>,
    /// The guardian that ends it when its host dies.
    pub guardian: Option<u32>,
    /// `true` if it has a cgroup of its own.
    pub in_cgroup: bool,
    /// All its processes, oldest first, without the guardian.
    pub processes: Vec<KnownProcess>,
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "nobody is listed")
    )]
    pub(crate) cookie: Cookie,
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "nobody is listed")
    )]
    pub(crate) leaf: Option<std::path::PathBuf>,
    /// Its own process on record, by number and start time.
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "nobody is listed")
    )]
    pub(crate) recorded: Option<(u32, u64)>,
    /// Why its cgroup is not found.
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "nobody is listed")
    )]
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
    /// `true` if it is a [`Wrapper`](crate::Wrapper): the one who uses the server is its parent.
    pub is_wrapper: bool,
    /// `true` if it is a wrapper with a [companion](crate::Wrapper::companion), for whose word it waits when nothing else of the server is left; or if it lives and that
    /// cannot be told.
    pub has_companion: bool,
    /// State of the host: alive, dead, or not known.
    pub state: HostState,
}

/// Whether a host lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostState {
    /// It holds its ledger.
    Alive,
    /// Its ledger can be locked: it is dead. What is left of its servers are orphans.
    Dead,
    /// There is no ledger of it: nobody can prove that it is dead.
    Unknown,
}

/// One process, as of one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KnownProcess {
    /// Process ID.
    pub pid: u32,
    /// Process ID of its parent; 0 where it is not visible.
    pub parent: u32,
    /// The name that the process gives itself, sixteen bytes at most.
    pub name: String,
    /// Time since its start.
    pub age: Duration,
    /// Its share of the memory that it uses (PSS), in bytes; `None` if that cannot be read.
    pub memory: Option<u64>,
    /// Processor time since it started, without its children's.
    pub cpu: Duration,
    /// `true` if it stays when its server ends, by its name or that of one above it ([`Wrapper::keep`](crate::Wrapper::keep)).
    pub is_kept: bool,
    pub(crate) start_time: u64,
}

/// A process of this user that may have been left by a host which keeps no account of its servers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unclaimed {
    /// It carries no identity, its parent has died, its standard input is a pipe or a Unix socket whose other end is closed, nothing of it listens on a socket, and no service manager keeps it.
    pub process: KnownProcess,
    /// Descendants of the process.
    pub descendants: Vec<KnownProcess>,
}

/// How a server was ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StopReport {
    /// Processes that were asked to end, with SIGTERM.
    pub asked: usize,
    /// Processes that had to be killed, with SIGKILL.
    pub killed: usize,
    /// Processes that are still there: without any, nothing of the server is left.
    pub survivors: Vec<KnownProcess>,
    /// Why it is not known whether something is left.
    pub unknown: Option<String>,
    /// The time that it took.
    pub took: Duration,
}

/// Looks at all of this user's servers. Blocks, for a few milliseconds per hundred processes of the machine.
///
/// # Errors
///
/// `/proc` or the identity of this boot cannot be read; or the system is not Linux.
pub fn look() -> io::Result<Inventory> {
    orphans::inventory()
}

/// Finds out what holds servers on this machine, as [`LocalLauncher::probe`](crate::LocalLauncher::probe) does, and leaves nothing: no ledger is made,
/// and none of an earlier host is removed. Blocks, for some milliseconds.
#[cfg(target_os = "linux")]
pub fn containment() -> Containment {
    Plan::look().containment().clone()
}

/// Finds out whether a server that this process wraps could have a [limit of memory](crate::Wrapper::memory), and changes nothing.
///
/// # Errors
///
/// It could not, for the reason that is told, with what to do.
#[cfg(target_os = "linux")]
pub fn memory_limit() -> io::Result<()> {
    crate::cgroup::parent_with_memory().map(drop)
}

/// Looks for processes that nobody claims. What each of them is, nobody knows: no launcher ends them. Blocks, as [`look`] does.
///
/// # Errors
///
/// Processes cannot be listed; or the system is not Linux.
pub fn unclaimed() -> io::Result<Vec<Unclaimed>> {
    orphans::unclaimed()
}

/// Looks for the [companion](crate::Wrapper::companion) of a server: the process of this user whose first argument is `role`, and whose standard input is the other end of a
/// socket of the server's shim or guardian. `None` if there is none any more. Blocks, as [`look`] does.
///
/// # Errors
///
/// Neither the shim nor the guardian lives, or the kernel does not say what they are connected to; a process may be it that does not say; processes cannot be listed; or the system is not Linux.
pub fn companion(server: &KnownServer, role: &str) -> io::Result<Option<KnownProcess>> {
    orphans::companion(server, role)
}

/// Looks for [companions](crate::Wrapper::companion) of this user whose first argument is `role`, and of whose server neither the shim nor the guardian lives: the other end of
/// the socket that is their standard input is closed, or the kernel does not say; and such of whom it cannot be told what their first argument is. Whose they were, nobody can tell any more; what they look after may live while they do.
/// Blocks, as [`look`] does.
///
/// # Errors
///
/// Processes cannot be listed; or the system is not Linux.
pub fn bereaved_companions(role: &str) -> io::Result<Vec<KnownProcess>> {
    orphans::bereaved(role)
}

/// Ends one server, whoever its host is: SIGTERM to each of its processes, and after `grace` SIGKILL to
/// those that are left, and to whoever they start meanwhile. Blocks, up to ten seconds longer than
/// `grace`. Its guardian ends by itself. A host that lives may start it again.
///
/// Each process is held by a descriptor before it is made sure that it is the one that was seen, and
/// signalled through that: never a stranger. A `grace` beyond 49 days is one of 49 days.
///
/// # Errors
///
/// This process is one of the server's, or was started by one; who is the server's cannot be found out; or
/// the system is not Linux. Nothing was done then. Who may not be signalled is a survivor, and keeps no other one.
pub fn stop(server: &KnownServer, grace: Duration) -> io::Result<StopReport> {
    orphans::stop(server, grace)
}

/// Ends what nobody claims, and all that it has started, as [`stop`] does: if it is still what it was, which is looked at again. Blocks,
/// up to ten seconds longer than `grace`. What it has started and has an identity of its own is left to its guardian.
///
/// That nobody claims it is a guess, so this is for programs that have asked a person. What starts between two looks, and loses its parent before
/// the second, is not found.
///
/// # Errors
///
/// It has gone, or somebody uses it by now; this process was started by it; or the system is not Linux. Nothing was done then.
pub fn stop_unclaimed(left: &Unclaimed, grace: Duration) -> io::Result<StopReport> {
    orphans::stop_unclaimed(left, grace)
}

impl KnownProcess {
    /// Returns whether both are the same process, at two moments.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.pid, self.start_time) == (other.pid, other.start_time)
    }

    /// Reads its program and arguments, which may hold secrets; empty if it has gone, has overwritten them, or does not say.
    pub fn command_line(&self) -> Vec<String> {
        orphans::command_line(self.pid, self.start_time).unwrap_or_default()
    }
}

impl KnownServer {
    /// Returns whether this is its own process.
    #[cfg(target_os = "linux")]
    pub(crate) fn is_recorded(&self, pid: u32, start_time: u64) -> bool {
        self.recorded == Some((pid, start_time))
    }

    /// Since its oldest process started.
    pub fn age(&self) -> Duration {
        let ages = self.processes.iter().map(|process| process.age);
        ages.max().unwrap_or_default()
    }

    /// The memory that its processes use together, in bytes, as far as it can be read.
    pub fn memory(&self) -> u64 {
        self.processes
            .iter()
            .filter_map(|process| process.memory)
            .sum()
    }

    /// The processor time that its processes have used together.
    pub fn cpu(&self) -> Duration {
        self.processes.iter().map(|process| process.cpu).sum()
    }
}

impl StopReport {
    /// Returns whether nothing of the server is left: nobody carries its identity, nobody is below its guardian or its own
    /// process, nobody is in its cgroup, and nobody who may be its without saying so could not be looked at.
    pub fn is_gone(&self) -> bool {
        self.survivors.is_empty() && self.unknown.is_none()
    }
}
