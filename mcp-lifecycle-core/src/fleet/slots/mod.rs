//! The engine that the manager and the pool share: one slot per key.
//!
//! docs/manager.md draws the states of a slot.
//!
//! [`Slot`](slot::Slot) and [`Table`](table::Table) decide without clock and I/O: they take events
//! and the time, and return [`Effect`](effect::Effect)s, which the [engine](super::engine) carries
//! out. A model test checks these invariants under random interleavings:
//!
//! * of the slots of one key at most one is live, except *beside* another;
//! * every live process belongs to a slot until it is proven gone;
//! * a lease is counted on the process it was granted for, and on no other;
//! * every waiter is granted, refused or cancelled, once;
//! * limits hold, and only idle slots are evicted;
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
