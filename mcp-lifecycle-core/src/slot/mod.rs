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
//! Deciding and doing are apart. [`Slot`] and [`Table`] decide, without clock and
//! I/O: they take what happened and the time, and give [`Effect`]s. The
//! [`engine`] carries these out. What always holds, and a model test checks under
//! random interleavings:
//!
//! * of the slots of one key at most one is live, unless one was put *beside*;
//! * every live process belongs to a slot of the table until it is proven gone;
//! * a lease is counted on the process it was granted for, and on no other;
//! * every waiter is granted, refused or cancelled, once;
//! * limits hold, and only what is idle is evicted;
//! * after a shutdown nothing starts, and in the end nothing is left.

pub(crate) mod engine;
mod one;
mod queue;
mod settings;
mod table;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

pub(crate) use one::{Phase, Slot};
pub(crate) use settings::{Demand, Limits, SlotSettings};
pub(crate) use table::{Acquired, Table};

use crate::EndReason;
use crate::restart::Time;

/// Names a slot, and no other one ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SlotId(u64);

/// Names somebody who waits for a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct WaiterId(u64);

/// Counts the processes of one slot.
pub(crate) type Generation = u64;

/// How the process of a slot ended, or its start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    pub(crate) generation: Generation,
    /// Whether nothing is left of it.
    pub(crate) proven: bool,
    /// Spreads the retries of servers that failed together.
    pub(crate) entropy: u64,
}

/// What the table needs to see of a running server.
pub(crate) trait Gauge: Clone {
    /// Whether calls are in flight.
    fn is_busy(&self) -> bool;
    /// Whether it has died, as far as is known.
    fn is_dead(&self) -> bool;
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Start a process for this slot.
    Start {
        slot: SlotId,
        generation: Generation,
    },
    /// End its process, or its start.
    End { slot: SlotId, reason: EndReason },
    /// Try again to end what could not be proven gone.
    EndAgain { slot: SlotId },
    /// This waiter has its lease.
    Grant {
        waiter: WaiterId,
        slot: SlotId,
        generation: Generation,
    },
    /// This waiter gets none.
    Refuse { waiter: WaiterId, refusal: Refusal },
    /// Nothing of the slot is left.
    Removed { slot: SlotId },
}

/// Why there is no lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The table is shut down.
    Closed,
    /// The slot was retired meanwhile.
    Retired(EndReason),
    /// The start failed; the engine knows how.
    StartFailed,
    /// It failed lately, and may start again at this time, which is too late.
    Backoff { until: Time, failures: u32 },
    /// It failed too often; it may start again at this time, if ever.
    Exhausted { until: Option<Time>, failures: u32 },
    /// A predecessor is not proven gone.
    Uncertain,
    /// A limit was reached, and these hold it.
    Capacity {
        limit: usize,
        of_server: bool,
        holders: Vec<SlotId>,
    },
}
