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
//! ledger ──── this host's: written as servers start and end
//! format ──── its text. Pure
//! shelf ───── other hosts' ledgers, and whether they are dead
//! processes ─ who carries which cookie
//! verdict ─── whom to end, whom to spare. Pure
//! reap ────── acts on it
//! ```

mod directory;
mod format;
mod ledger;
mod processes;
mod reap;
mod shelf;
mod verdict;

pub(crate) use ledger::{Entry, register, register_uncontained};
pub(crate) use processes::carrying;
pub(crate) use reap::reap;
