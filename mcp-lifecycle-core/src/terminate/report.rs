use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tracing::{debug, info, warn};

use super::{Phase, TerminateError, TerminateErrorContext, TerminationOutcome};
use crate::launch::remnant::list;
use crate::launch::{Containment, ExitStatus, Gone, ProcessTerminator, ServerIdentity, StepError};

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

/// The record of an end in progress, which becomes its report.
pub(super) struct Record<'a> {
    server: &'a str,
    terminator: &'a dyn ProcessTerminator,
    report_limit: Duration,
    begun: Instant,
    phases: Vec<PhaseRecord>,
    entered: Instant,
}

impl<'a> Record<'a> {
    pub(super) fn new(
        server: &'a str,
        terminator: &'a dyn ProcessTerminator,
        report_limit: Duration,
        begun: Instant,
    ) -> Self {
        Self {
            server,
            terminator,
            report_limit,
            begun,
            phases: Vec::new(),
            entered: begun,
        }
    }

    pub(super) fn enter(&mut self, phase: Phase) {
        self.close_phase();
        self.entered = Instant::now();
        debug!(server = %self.server, %phase, "termination phase");
        self.phases.push(PhaseRecord {
            phase,
            took: Duration::ZERO,
            failure: None,
        });
    }

    fn close_phase(&mut self) {
        if let Some(last) = self.phases.last_mut() {
            last.took = self.entered.elapsed();
        }
    }

    pub(super) fn failed(&mut self, failure: String) {
        if let Some(last) = self.phases.last_mut() {
            last.failure = Some(failure);
        }
    }

    pub(super) async fn report(
        mut self,
        reason: EndReason,
        exited: &mut (impl Future<Output = ExitStatus> + Unpin),
        exit: Option<ExitStatus>,
        gone: Gone,
    ) -> Arc<TerminationReport> {
        self.close_phase();
        let exit = match exit {
            Some(exit) => exit,
            None => timeout(self.report_limit, exited)
                .await
                .unwrap_or(ExitStatus::Unknown),
        };
        Arc::new(TerminationReport {
            server: self.server.to_owned(),
            identity: self.terminator.identity(),
            reason,
            exit,
            phases: self.phases,
            gone,
            containment: self.terminator.semantics().containment,
            took: self.begun.elapsed(),
        })
    }

    pub(super) async fn error(
        mut self,
        reason: EndReason,
        cause: Option<StepError>,
    ) -> TerminateError {
        self.close_phase();
        let terminator = self.terminator;
        let (survivors, unknown) = match timeout(self.report_limit, terminator.survivors()).await {
            Ok(Ok(survivors)) => (survivors, None),
            Ok(Err(error)) => (Vec::new(), Some(error.to_string())),
            Err(_) => (Vec::new(), Some("the launcher does not answer".to_owned())),
        };
        TerminateErrorContext {
            server: self.server.to_owned(),
            identity: terminator.identity(),
            reason,
            survivors,
            cause: cause.map(|error| error.to_string()).or(unknown),
            phases: self.phases,
            took: self.begun.elapsed(),
        }
        .into()
    }
}

/// Logs an outcome.
pub(super) fn trace(outcome: &TerminationOutcome) {
    match outcome {
        Ok(report) => info!(
            server = %report.server,
            identity = %report.identity,
            reason = %report.reason,
            exit = %report.exit,
            phase = report.ended_in().map(tracing::field::display),
            swept = report.gone.swept_count,
            proof = %list(&report.gone.evidence, "; "),
            containment = %report.containment.mechanism,
            took_ms = report.took.as_millis() as u64,
            "server ended"
        ),
        Err(error) => {
            let context = error.context();
            warn!(
                server = %context.server,
                identity = %context.identity,
                reason = %context.reason,
                survivors = context.survivors.len(),
                took_ms = context.took.as_millis() as u64,
                %error,
                "server not proven gone"
            );
        }
    }
}
