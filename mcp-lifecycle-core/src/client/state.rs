//! The observable state of a client's server.

use crate::{EndReason, Era, TerminationOutcome};

/// Where a server is in its life.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ClientState {
    /// Launched, and in the handshake.
    Starting,
    /// Ready for calls.
    Ready {
        /// The era of the protocol it speaks.
        era: Era,
    },
    /// Its end is under way; calls are refused.
    Ending {
        /// Why.
        reason: EndReason,
    },
    /// It has ended: proven, or with an error that names what may be left.
    Ended {
        /// Which.
        outcome: TerminationOutcome,
    },
}

impl ClientState {
    /// Whether calls are accepted.
    pub fn is_ready(&self) -> bool {
        matches!(self, Self::Ready { .. })
    }

    /// Whether the end is over.
    pub fn is_ended(&self) -> bool {
        matches!(self, Self::Ended { .. })
    }
}
