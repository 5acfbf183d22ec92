//! Servers of earlier hosts, of which no guardian and no cgroup took care: the
//! host was killed together with the guardian, or there was none.
//!
//! Each host that launches keeps a *ledger*: a small file with its identity,
//! locked for as long as it lives. Each server carries a *cookie* in its
//! environment that names its host. A next host that can lock a ledger has the
//! proof that its owner is dead, and ends whoever carries its cookie. The why
//! of each rule is in `docs/orphans.md`.
//!
//! ```text
//! directory ─ where ledgers are, and that it is really ours
//! page ────── the file of a ledger
//! alone ────── the ledger of a process that wraps one server
//! ledger ──── this host's: written as servers start and end
//! format ──── its text. Pure
//! group ────── a process group that has lost its leader
//! place ───── where cgroups are, and that they are visible
//! sight ───── which processes are visible
//! shelf ───── other hosts' ledgers, and whether they are dead
//! shelves ──── those of all directories
//! census ───── who carries one, all of them and not only those listed at once
//! processes ─ who carries which cookie
//! mark ────── the cookie in an environment. Pure
//! verdict ─── whom to end, whom to spare. Pure
//! settle ──── which ledgers have served their purpose. Pure
//! search ──── looks, and ends whom it may
//! reap ────── all of it in order
//! ring ────── what ended, and how
//! inventory ─ what runs, for people to look at
//! members ──── whom one server has now
//! unclaimed ─ what hosts leave that keep no account
//! companions  what looks after the containers of servers
//! input ───── whether anybody can write to a process, or reach it
//! stop ────── one server, on behalf of a person
//! ```

mod alone;
mod census;
mod companions;
mod directory;
mod format;
mod group;
mod input;
mod inventory;
#[path = "../../guardian-bin/keep.rs"]
pub(crate) mod keep;
mod ledger;
mod lock;
pub(crate) mod mark;
mod members;
#[cfg(test)]
mod model;
mod page;
mod place;
mod processes;
mod reap;
mod residents;
mod ring;
mod search;
mod settle;
mod shelf;
mod shelves;
mod sight;
mod stop;
mod unclaimed;
pub(crate) mod verdict;

pub(crate) use alone::Alone;
pub(crate) use census::{Carrier, Where, is_nobody_abroad, take as census};
pub(crate) use companions::{bereaved, companion};
pub(crate) use group::end_group;
pub(crate) use inventory::{command_line, inventory};
pub(crate) use ledger::{Entry, UNRECORDED, register, register_uncontained};
pub(crate) use processes::{is_guardian, mark_of};
pub(crate) use reap::reap;
pub(crate) use ring::{claim, history};
pub(crate) use sight::{is_first_of_another_namespace, shows_all};
pub(crate) use stop::{stop, stop_unclaimed};
pub(crate) use unclaimed::unclaimed;
pub(crate) use verdict::Mark;
