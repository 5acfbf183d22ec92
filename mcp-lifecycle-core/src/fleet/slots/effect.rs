//! Inputs and orders of the table.

use crate::fleet::restart::Time;
use crate::terminate::EndReason;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SlotId(pub(super) u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct WaiterId(pub(super) u64);

/// Number of a process among those of its slot.
pub(crate) type Generation = u64;

/// The end of a slot's process, or of its start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    pub(crate) generation: Generation,
    pub(crate) proven: bool,
    /// Spreads the retries of servers that failed together.
    pub(crate) entropy: u64,
}

pub(crate) trait Liveness: Clone {
    fn is_busy(&self) -> bool;
    fn is_dead(&self) -> bool;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    Start {
        slot: SlotId,
        generation: Generation,
    },
    /// End its process, or its start.
    End {
        slot: SlotId,
        reason: EndReason,
    },
    /// Retry an end that was not proven.
    EndAgain {
        slot: SlotId,
    },
    Grant {
        waiter: WaiterId,
        slot: SlotId,
        generation: Generation,
    },
    Refuse {
        waiter: WaiterId,
        refusal: Refusal,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    Closed,
    Retired(EndReason),
    /// The start failed; the engine has the reason.
    StartFailed,
    /// The server failed recently, and this restart time is after the deadline.
    Backoff {
        until: Time,
        failures: u32,
    },
    /// The server failed too often; it may restart at this time, if ever.
    Exhausted {
        until: Option<Time>,
        failures: u32,
    },
    Uncertain,
    /// A limit was reached; these slots hold it.
    Capacity {
        limit: usize,
        of_server: bool,
        holders: Vec<SlotId>,
    },
}
