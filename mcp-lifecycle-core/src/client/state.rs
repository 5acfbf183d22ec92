use super::Era;
use crate::launch::ExitStatus;
use crate::terminate::{EndReason, TerminationOutcome};

/// The state of a server. It determines which calls are refused or fail, and why.
#[derive(Debug, Clone)]
#[non_exhaustive]
#[expect(missing_docs, reason = "names and messages say it")]
pub enum ClientState {
    Starting,
    Ready {
        era: Era,
    },
    /// Its end has begun; new calls are refused.
    #[non_exhaustive]
    Ending {
        /// The reason. Changes to [`EndReason::ServerExited`] if the server dies while its calls
        /// drain.
        reason: EndReason,
        /// The exit status of its main process, if it ended by itself.
        exit: Option<ExitStatus>,
        /// `true` if calls in flight may still complete; otherwise they have failed.
        draining: bool,
    },
    /// The server has ended: proven, or with an error that names what may be left.
    Ended {
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

    /// Returns the reason of the end, and the exit status of the main process, if known.
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

    pub(super) fn is_closed(&self) -> bool {
        match self {
            Self::Starting | Self::Ready { .. } => false,
            Self::Ending { draining, .. } => !draining,
            Self::Ended { .. } => true,
        }
    }
}
