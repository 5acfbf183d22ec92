//! Finds and ends the servers of dead hosts, which no guardian and no cgroup has ended.
//!
//! Each host that launches keeps a *ledger*: a small file with its identity, locked while it lives.
//! Each server carries a *cookie* in its environment that names its host. A later host that can lock
//! a ledger has the proof that its owner is dead, and ends the processes with that cookie. The rules
//! and their reasons are in `docs/containment.md`.
//!
//! ```text
//! directory ──────── the directories of ledgers, and that they are private
//! locked_file ────── file locks, and the file of a ledger
//! ledger ─────────── this host's: written as servers start and end
//! wrapper_ledger ─── that of a process that wraps one server
//! foreign_ledgers ── other hosts' ledgers, and whether their hosts are dead
//! format ─────────── the text of a ledger. Pure
//! place ──────────── the place of cgroups, and that they are visible
//! visibility ─────── which processes are visible
//! processes ──────── a snapshot of all processes and their cookies
//! census ─────────── the processes with a cookie, all of them
//! residents ──────── the cache of the census
//! mark ───────────── the cookie in an environment. Pure
//! verdict ────────── which processes to end and which to spare. Pure
//! settle ─────────── which ledgers can be removed. Pure
//! hunt ───────────── finds processes by a judge, holds and signals them
//! search ─────────── the judge of dead hosts' orphans, and its account
//! reap ───────────── all of it in order
//! ring ───────────── the history of ended servers
//! report ─────────── its result
//! inventory, known ─ what runs, for administration tools, and its types
//! members ────────── the processes of one server
//! unclaimed ──────── the remains of hosts without ledgers
//! companions ─────── the processes that look after the containers of servers
//! input ──────────── whether a process can still be written to, or reached
//! stop ───────────── ends one server on request
//! group ──────────── ends a process group that has lost its leader
//! ```

mod census;
mod companions;
mod directory;
mod foreign_ledgers;
mod format;
mod group;
mod hunt;
mod input;
mod inventory;
#[path = "../../guardian-bin/keep.rs"]
mod keep;
pub mod known;
mod ledger;
mod locked_file;
mod mark;
mod members;
#[cfg(test)]
mod model;
mod place;
mod processes;
mod reap;
pub mod report;
mod residents;
pub mod ring;
mod search;
mod settle;
mod stop;
mod unclaimed;
mod verdict;
mod visibility;
mod wrapper_ledger;

/// The maximum length of the patterns of processes to keep, in bytes.
pub const PATTERNS_MAX: usize = keep::PATTERNS_MAX;

/// Returns whether a pattern matches a process of this name and command line.
pub fn is_meant(patterns: &[u8], name: &[u8], command: &[u8]) -> bool {
    keep::is_meant(patterns, name, command)
}

pub use census::{Carrier, Where, foreign_namespaces_are_clear, take as census};
pub use companions::{companion, without_server};
pub use group::end_group;
pub use hunt::strike;
use inventory::command_line;
pub use inventory::inventory;
pub use ledger::{Entry, UNRECORDED, register, register_uncontained};
pub use processes::{is_guardian, mark_of};
pub use reap::reap;
pub use ring::claim;
pub use stop::{stop, stop_unclaimed};
pub use unclaimed::unclaimed;
pub use verdict::Mark;
pub use visibility::{is_first_of_another_namespace, shows_all};
pub use wrapper_ledger::WrapperLedger;
