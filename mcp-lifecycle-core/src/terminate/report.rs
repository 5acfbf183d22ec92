//! The report of a termination, for people and programs.

use std::fmt;
use std::time::Duration;

use super::ladder::Phase;
use crate::launch::containment::Containment;
use crate::launch::exit::ExitStatus;
use crate::launch::identity::ServerIdentity;
use crate::launch::proof::{EvidenceList, Gone};

/// The reason a server was ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EndReason {
    /// Its owner shut it down.
    Shutdown,
    /// Its owner was dropped without a shutdown.
    OwnerDropped,
    /// Its main process exited by itself.
    ServerExited,
    /// The server closed its output while its process went on.
    OutputClosed,
    /// Its start failed or was cancelled.
    StartFailed,
    /// Its configuration changed or it was removed from the configuration.
    ConfigChanged,
    /// Nobody used it for the idle time of its pool.
    Idle,
    /// A pool at its limit needed the place.
    Evicted,
    /// The scope it belonged to ended.
    ScopeEnded,
    /// Something of the application's own.
    Other(
        /// The reason in a word or two.
        String,
    ),
}

impl EndReason {
    /// A stable name for logs and metrics.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Shutdown => "shutdown",
            Self::OwnerDropped => "owner_dropped",
            Self::ServerExited => "server_exited",
            Self::OutputClosed => "output_closed",
            Self::StartFailed => "start_failed",
            Self::ConfigChanged => "config_changed",
            Self::Idle => "idle",
            Self::Evicted => "evicted",
            Self::ScopeEnded => "scope_ended",
            Self::Other(reason) => reason,
        }
    }
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shutdown => "shutdown",
            Self::OwnerDropped => "its owner was dropped",
            Self::ServerExited => "it exited",
            Self::OutputClosed => "it closed its output",
            Self::StartFailed => "its start failed",
            Self::ConfigChanged => "its configuration has changed",
            Self::Idle => "it was idle",
            Self::Evicted => "its place was needed",
            Self::ScopeEnded => "its scope has ended",
            Self::Other(reason) => reason,
        })
    }
}

/// One rung of the ladder, as it went.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PhaseRecord {
    /// The rung.
    pub phase: Phase,
    /// The time the server spent on it.
    pub took: Duration,
    /// The reason its action failed, if it did; the ladder went on to the next rung.
    pub failure: Option<String>,
}

/// The proof that a server has ended, and the account of how.
///
/// A report exists only when nothing of the server is left; anything else is a
/// [`TerminateError`](crate::terminate::TerminateError).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TerminationReport {
    /// The server's name in its specification.
    pub server: String,
    /// The identity of the server.
    pub identity: ServerIdentity,
    /// The reason it was ended.
    pub reason: EndReason,
    /// The exit status of its main process.
    pub exit: ExitStatus,
    /// The rungs that were climbed, in order.
    pub phases: Vec<PhaseRecord>,
    /// The proof, with what outlived the main process and was swept, or was reported.
    pub gone: Gone,
    /// The containment of the server while it lived.
    pub containment: Containment,
    /// From the first step to the proof.
    pub took: Duration,
}

impl TerminationReport {
    /// The last rung that was needed; `None` when the server had gone already.
    pub fn ended_in(&self) -> Option<Phase> {
        self.phases.last().map(|record| record.phase)
    }

    /// Returns whether the server ended without being signalled and left nothing behind.
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
        writeln!(f, "\nproof:       {}", EvidenceList(&self.gone.evidence))?;
        writeln!(f, "containment: {}", self.containment)?;
        write!(f, "took:        {:.1?}", self.took)
    }
}
