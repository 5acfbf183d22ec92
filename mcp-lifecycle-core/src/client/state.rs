//! The observable state of a client's server: the one place where it is kept.

use super::era::Era;
use crate::launch::exit::ExitStatus;
use crate::terminate::handle::TerminationOutcome;
use crate::terminate::report::EndReason;

/// The state of a server.
///
/// Everything else follows from it: which calls are refused, which fail, and why.
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
    /// Its end is under way; new calls are refused.
    #[non_exhaustive]
    Ending {
        /// The reason. A server that dies while its calls drain has
        /// [`EndReason::ServerExited`] from then on.
        reason: EndReason,
        /// The exit status of its main process, if it ended by itself.
        exit: Option<ExitStatus>,
        /// `true` if calls in flight may still complete. They have failed otherwise.
        draining: bool,
    },
    /// The server has ended: proven, or with an error that names what may be left.
    Ended {
        /// The proof, or the error.
        outcome: TerminationOutcome,
    },
}

impl ClientState {
    /// Returns whether calls are accepted.
    pub fn is_ready(&self) -> bool {
        matches!(self, Self::Ready { .. })
    }

    /// Returns whether the end has begun: new calls are refused.
    pub fn is_ending(&self) -> bool {
        matches!(self, Self::Ending { .. } | Self::Ended { .. })
    }

    /// Returns whether the end is over.
    pub fn is_ended(&self) -> bool {
        matches!(self, Self::Ended { .. })
    }

    /// The reason it ends or has ended, and how its main process exited, where that is known.
    pub fn end_reason(&self) -> Option<(&EndReason, Option<ExitStatus>)> {
        match self {
            Self::Starting | Self::Ready { .. } => None,
            Self::Ending { reason, exit, .. } => Some((reason, *exit)),
            Self::Ended { outcome } => Some(match outcome {
                Ok(report) => (&report.reason, Some(report.exit)),
                Err(error) => (&error.context().reason, None),
            }),
        }
    }

    /// Returns whether calls in flight fail.
    pub(super) fn is_closed(&self) -> bool {
        match self {
            Self::Starting | Self::Ready { .. } => false,
            Self::Ending { draining, .. } => !draining,
            Self::Ended { .. } => true,
        }
    }
}
