//! The servers of hosts that have died, where no account is kept of hosts: macOS.
//!
//! ```text
//! hosts ──── whether a host has died
//! kin ────── who is left of one that has: by mark, and by the link to one with a mark
//! search ─── looks, holds, ends
//! ```
//!
//! Pure, as all of the lineage. `docs/lineage.md` has the rules.

mod hosts;
mod kin;
#[cfg(test)]
mod model;
mod search;

use std::io;

#[cfg(target_os = "macos")]
use mcp_lifecycle_core::launch::ReapReport;
use mcp_lifecycle_core::launch::Remnant;

#[cfg(target_os = "macos")]
use self::search::{RULES, Search};
use super::{Processes, Seen};
use crate::identity::HostId;
use crate::orphans::verdict::Mark;
use crate::sys::Pid;

/// A process, with what the system tells of it besides its ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fact {
    pub(crate) seen: Seen,
    /// Who would reap it: who started it, or the first process.
    pub(crate) parent: u32,
    /// 0 where it is not told.
    pub(crate) start_time: u64,
    /// It is this user's.
    pub(crate) is_own: bool,
    pub(crate) name: String,
}

impl Fact {
    fn remnant(&self) -> Remnant {
        Remnant::process(self.seen.pid.as_u32(), &*self.name)
    }
}

/// What a process says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) mark: Mark,
    /// It is the pipe watcher of whoever started it, which is a host.
    pub(crate) is_watcher: bool,
}

/// What a search needs besides.
pub(crate) trait Machine: Processes {
    /// The process of this number, also when it is a zombie.
    fn fact(&mut self, pid: Pid) -> io::Result<Option<Fact>>;

    /// What whoever has this number now says of itself.
    fn read(&mut self, pid: Pid) -> Said;

    /// Waits for a moment.
    fn pause(&mut self);

    /// The time of the search is over.
    fn is_late(&self) -> bool;
}

/// Who searches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Searcher<'a> {
    pub(crate) this: Option<&'a HostId>,
    pub(crate) pid: u32,
    /// Which boot of the machine this is.
    pub(crate) boot_id: &'a str,
}

/// Finds and ends whoever is left of dead hosts, as far as it says so or is linked to one that does.
///
/// # Errors
///
/// Processes cannot be listed.
#[cfg(target_os = "macos")]
pub(crate) fn reap(machine: &mut impl Machine, searcher: &Searcher<'_>) -> io::Result<ReapReport> {
    Search::new(machine, searcher, RULES).run()
}
