use std::fmt;
use std::time::Duration;

use super::Phase;
use crate::launch::remnant::list;
use crate::launch::{Containment, ExitStatus, Gone, ServerIdentity};

/// The reason a server was ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, displaydoc::Display)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the reason has its name")]
pub enum EndReason {
    #[displaydoc("shutdown")]
    Shutdown,
    /// Its owner was dropped without a shutdown.
    #[displaydoc("its owner was dropped")]
    OwnerDropped,
    #[displaydoc("it exited")]
    ServerExited,
    /// The server closed its output but kept running.
    #[displaydoc("it closed its output")]
    OutputClosed,
    /// The server closed its input while its process went on.
    #[displaydoc("it closed its input")]
    InputClosed,
    /// Its start failed or was cancelled.
    #[displaydoc("its start failed")]
    StartFailed,
    #[displaydoc("its configuration has changed")]
    ConfigChanged,
    #[displaydoc("it is no longer declared")]
    Undeclared,
    /// It was not used for the idle time of its pool.
    #[displaydoc("it was idle")]
    Idle,
    /// Another server needs this capacity.
    #[displaydoc("its place was needed")]
    Evicted,
    #[displaydoc("its scope has ended")]
    ScopeEnded,
    /// An application-specific reason.
    #[displaydoc("{0}")]
    Other(String),
}

impl EndReason {
    /// Returns a stable name for logs and metrics.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Shutdown => "shutdown",
            Self::OwnerDropped => "owner_dropped",
            Self::ServerExited => "server_exited",
            Self::OutputClosed => "output_closed",
            Self::InputClosed => "input_closed",
            Self::StartFailed => "start_failed",
            Self::ConfigChanged => "config_changed",
            Self::Undeclared => "undeclared",
            Self::Idle => "idle",
            Self::Evicted => "evicted",
            Self::ScopeEnded => "scope_ended",
            Self::Other(reason) => reason,
        }
    }
}

#[cfg(feature = "fleet")]
impl EndReason {
    pub(crate) fn is_servers_own(&self) -> bool {
        matches!(
            self,
            Self::ServerExited | Self::OutputClosed | Self::InputClosed
        )
    }
}

/// The record of one rung.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PhaseRecord {
    /// The rung.
    pub phase: Phase,
    /// The time the server spent on it.
    pub took: Duration,
    /// The reason that its action failed, if it did.
    pub failure: Option<String>,
}

/// The proof that a server has ended, and the record of its end.
///
/// Exists only if nothing of the server is left; otherwise there is a
/// [`TerminateError`](crate::terminate::TerminateError).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the field has its name")]
pub struct TerminationReport {
    pub server: String,
    pub identity: ServerIdentity,
    pub reason: EndReason,
    pub exit: ExitStatus,
    /// The rungs that were climbed, in order.
    pub phases: Vec<PhaseRecord>,
    /// The proof, with the remnants that were swept or reported.
    pub gone: Gone,
    pub containment: Containment,
    /// Time from the first step to the proof.
    pub took: Duration,
}

impl TerminationReport {
    /// Returns the last rung that was needed; `None` if the server had ended already.
    pub fn ended_in(&self) -> Option<Phase> {
        self.phases.last().map(|record| record.phase)
    }

    /// Returns whether the server ended without a signal and left nothing behind.
    pub fn was_graceful(&self) -> bool {
        self.gone.swept_count == 0
            && self
                .phases
                .iter()
                .all(|r| matches!(r.phase, Phase::CloseStdin | Phase::Stragglers))
    }
}

impl fmt::Display for TerminationReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "server:      {} ({})", self.server, self.identity)?;
        writeln!(f, "reason:      {}", self.reason)?;
        writeln!(f, "exit:        {}", self.exit)?;
        for record in &self.phases {
            write!(f, "phase:       {:<12} {:.1?}", record.phase, record.took)?;
            match &record.failure {
                Some(failure) => writeln!(f, " (failed: {failure})")?,
                None => writeln!(f)?,
            }
        }
        write!(f, "swept:       {}", self.gone.swept_count)?;
        for remnant in &self.gone.swept {
            write!(f, "\n  {remnant}")?;
        }
        for remnant in &self.gone.reported {
            write!(f, "\nleft alone:  {remnant}")?;
        }
        writeln!(f, "\nproof:       {}", list(&self.gone.evidence, "; "))?;
        writeln!(f, "containment: {}", self.containment)?;
        write!(f, "took:        {:.1?}", self.took)
    }
}
