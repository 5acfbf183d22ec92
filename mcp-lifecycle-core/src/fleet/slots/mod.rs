//! The engine that the manager and the pool share: one slot per key.
//!
//! ```text
//!             wanted, and there is room
//!  ┌────────┐ ─────────────────────────▶ ┌──────────┐ handshake done ┌───────┐
//!  │ Vacant │                            │ Starting │ ─────────────▶ │ Ready │
//!  └────────┘ ◀─────────┐                └──────────┘                └───────┘
//!      ▲                │ time is up       │    │ retired         died │  │ retired,
//!      │            ┌───┴─────┐   failed,  │    ▼                      ▼  ▼ idle, evicted
//!      │            │ Backoff │   nothing  │  ┌─────────────────────────────┐
//!      │            └─────────┘ ◀── left ──┤  │           Ending            │ ◀─┐
//!      │                ▲                  │  └─────────────────────────────┘   │ again
//!      │ cooldown       └──────────────────┼── proven gone, not retired ─┤ │ │  │
//!  ┌───┴───────┐                           │                             │ │ └▶ Uncertain
//!  │ Exhausted │ ◀── budget used up ───────┴─────────────────────────────┘ │  not proven
//!  └───────────┘                                                           ▼
//!                                            proven gone and retired ──▶ removed
//! ```
//!
//! Deciding and doing are apart. [`Slot`](slot::Slot) and [`Table`](table::Table) decide, without clock and
//! I/O: they take what happened and the time, and give [`Effect`](effect::Effect)s. The
//! [engine](super::engine) carries these out. What always holds, and a model test checks under
//! random interleavings:
//!
//! * of the slots of one key at most one is live, unless one was put *beside*;
//! * every live process belongs to a slot of the table until it is proven gone;
//! * a lease is counted on the process it was granted for, and on no other;
//! * every waiter is granted, refused or cancelled, once;
//! * limits hold, and only what is idle is evicted;
//! * after a shutdown nothing starts, and in the end nothing is left.

mod admission;
pub(crate) mod effect;
pub(crate) mod settings;
pub(crate) mod slot;
pub(crate) mod table;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
