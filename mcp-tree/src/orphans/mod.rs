//! Finds and ends the servers of dead hosts, which no guardian and no cgroup has ended.
//!
//! Each host that launches keeps a *ledger*: a small file with its identity, locked while it lives.
//! Each server carries a *cookie* in its environment that names its host. A later host that can lock
//! a ledger has the proof that its owner is dead, and ends the processes with that cookie. The rules
//! and their reasons are in `docs/containment.md`.
//!
//! - records: `ledger`, `wrapper_ledger` and `foreign_ledgers`; `ring` of ended servers
//! - looks: `processes` (a snapshot), `census` (all that carry a cookie), `visibility`
//! - decisions, pure: `verdict`, `settle`
//! - ends: `hunt`, by the judges `search`, `members` and `unclaimed`; `reap`, `stop`
//! - waits: `predecessor`
//! - administration: `inventory`, `known`, `companions`

mod census;
mod companions;
mod directory;
mod foreign_ledgers;
mod format;
mod group;
mod hunt;
mod input;
mod inventory;
pub mod known;
mod ledger;
mod locked_file;
mod mark;
mod members;
#[cfg(test)]
mod model;
mod place;
mod predecessor;
mod processes;
mod reap;
mod residents;
pub mod ring;
mod search;
mod settle;
mod stop;
mod unclaimed;
mod verdict;
mod visibility;
mod wrapper_ledger;

pub use census::{Carrier, Where, foreign_namespaces_are_clear, take as census};
pub use companions::{companion, without_server};
pub use format::Exclusive;
pub use group::end_group;
pub use hunt::strike;
use inventory::command_line;
pub use inventory::inventory;
pub use ledger::{Entry, UNRECORDED, register, register_uncontained};
pub use predecessor::await_predecessors;
pub use processes::{is_guardian, mark_of};
pub use reap::reap;
pub use ring::claim;
pub use stop::{stop, stop_unclaimed};
pub use unclaimed::unclaimed;
pub use verdict::Mark;
pub use visibility::{is_first_of_another_namespace, shows_all};
pub use wrapper_ledger::WrapperLedger;
