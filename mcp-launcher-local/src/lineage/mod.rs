//! The descendants of a server, where the kernel holds nothing together: macOS.
//!
//! ```text
//! graph ──── who descends from the server: the links of those that were seen
//! rules ──── the decisions, each a function
//! hunt ───── who is held, ended, and in which order
//! mark ───── the mark, in what the system tells of a process
//! reap ───── the servers of hosts that have died
//! ```
//!
//! Pure: what the system tells comes by [`System`] and [`Machine`](reap::Machine), and the model of the tests is one. The design, and
//! what is not guaranteed, is in `docs/lineage.md`.

mod graph;
mod hunt;
mod mark;
#[cfg(test)]
mod model;
mod reap;
mod rules;

use std::io;

pub(crate) use self::graph::Lineage;
#[cfg(target_os = "macos")]
pub(crate) use self::mark::{said, witness};
#[cfg(target_os = "macos")]
pub(crate) use self::reap::{Fact, Machine, Said, Searcher, reap};
use crate::sys::Pid;

/// A process, as the system tells of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) pid: Pid,
    /// Never given out twice, and greater than that of everybody who was started before.
    pub(crate) unique: u64,
    /// The unique id of who started it, which stays when that has ended.
    pub(crate) started_by: u64,
    pub(crate) group: u32,
    pub(crate) is_zombie: bool,
}

/// The processes of a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listing {
    pub(crate) pids: Vec<Pid>,
    /// There were no more than these.
    pub(crate) is_whole: bool,
}

/// The mark that a process carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Witness {
    /// Of this server.
    Ours,
    /// Of another server, or none.
    Other,
    /// It cannot be read.
    Hidden,
}

/// An order to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Stop,
    Continue,
    Terminate,
    Kill,
}

/// The outcome of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    Given,
    /// There is no such process.
    Nobody,
    /// It is another user's.
    Refused,
}

/// The processes of this machine. Between any two questions or orders everything may happen.
pub(crate) trait Processes {
    /// Everybody who is there, zombies as well.
    fn list(&mut self) -> io::Result<Listing>;

    /// The process of this number, also when it is a zombie.
    fn ask(&mut self, pid: Pid) -> io::Result<Option<Seen>>;

    fn send(&mut self, pid: Pid, order: Order) -> Sent;
}

/// What the lineage of a server needs besides.
pub(crate) trait System: Processes {
    /// The mark of whoever has this number now.
    fn witness(&mut self, pid: Pid) -> Witness;

    /// Has the forks of whoever has this number told, from now on.
    fn watch(&mut self, pid: Pid);

    /// Ends that.
    fn unwatch(&mut self, pid: Pid);
}
