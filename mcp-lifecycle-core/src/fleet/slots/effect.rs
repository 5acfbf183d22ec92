use std::hash::Hash;
use std::sync::Arc;

use crate::fleet::AcquireErrorKind;
use crate::fleet::engine::record::Failure;
use crate::terminate::EndReason;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SlotId(pub(super) u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct WaiterId(pub(super) u64);

/// Number of a process among those of its slot.
pub(crate) type Generation = u64;

/// The server of a slot. Only *busy* and *dead* change without an event.
pub(crate) trait Entry {
    type Key: Clone + Eq + Hash;
    fn key(&self) -> &Self::Key;
    fn server(&self) -> &Arc<str>;
    fn owner(&self) -> &Arc<str>;
    fn is_busy(&self) -> bool;
    fn is_dead(&self) -> bool;
    fn failure(&self) -> Option<Failure>;
}

#[derive(Debug)]
pub(crate) enum Effect {
    Start {
        slot: SlotId,
        generation: Generation,
    },
    End {
        slot: SlotId,
        reason: EndReason,
    },
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
        refusal: AcquireErrorKind,
    },
}
