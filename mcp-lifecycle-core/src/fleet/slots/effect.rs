//! The questions to the table, and its orders.

use crate::fleet::restart::Time;
use crate::terminate::report::EndReason;

/// Names a slot, and no other one ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SlotId(pub(super) u64);

/// Names somebody who waits for a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct WaiterId(pub(super) u64);

/// Counts the processes of one slot.
pub(crate) type Generation = u64;

/// How the process of a slot ended, or its start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    pub(crate) generation: Generation,
    /// `true` if nothing is left of it.
    pub(crate) proven: bool,
    /// Spreads the retries of servers that failed together.
    pub(crate) entropy: u64,
}

/// A running server, as far as the table needs to see it.
pub(crate) trait Liveness: Clone {
    /// Returns whether calls are in flight.
    fn is_busy(&self) -> bool;
    /// Returns whether it has died, as far as is known.
    fn is_dead(&self) -> bool;
}

/// An order of the table to the engine.
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

/// The reason there is no lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The table is shut down.
    Closed,
    /// The slot was retired meanwhile.
    Retired(EndReason),
    /// The start failed; the engine knows how.
    StartFailed,
    /// The server failed lately, and may start again at this time, which is too late.
    Backoff { until: Time, failures: u32 },
    /// The server failed too often; it may start again at this time, if ever.
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
