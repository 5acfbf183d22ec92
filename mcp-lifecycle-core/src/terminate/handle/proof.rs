use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tracing::{debug, info, warn};

use super::{Shared, TerminationOutcome};
use crate::launch::remnant::list;
use crate::launch::{ExitStatus, Gone, ProcessTerminator, StepError};
use crate::terminate::{
    EndReason, Phase, PhaseRecord, TerminateError, TerminateErrorContext, TerminationReport,
};

pub(super) struct Question<'a> {
    terminator: &'a dyn ProcessTerminator,
    gone: Option<Answer<'a>>,
    pub(super) cause: Option<StepError>,
}

type Answer<'a> = Pin<Box<dyn Future<Output = Result<Gone, StepError>> + Send + 'a>>;

impl<'a> Question<'a> {
    pub(super) fn new(terminator: &'a dyn ProcessTerminator) -> Self {
        Self {
            terminator,
            gone: Some(terminator.gone()),
            cause: None,
        }
    }

    pub(super) fn ask_again(&mut self) {
        self.gone.get_or_insert_with(|| self.terminator.gone());
    }

    pub(super) async fn proof(&mut self) -> Gone {
        if let Some(gone) = &mut self.gone {
            match gone.await {
                Ok(proof) => return proof,
                Err(error) => {
                    self.gone = None;
                    self.cause = Some(error);
                }
            }
        }
        std::future::pending().await
    }
}

pub(super) struct Record<'a> {
    shared: &'a Shared,
    report_limit: Duration,
    begun: Instant,
    phases: Vec<PhaseRecord>,
    entered: Instant,
}

impl<'a> Record<'a> {
    pub(super) fn new(shared: &'a Shared, report_limit: Duration, begun: Instant) -> Self {
        Self {
            shared,
            report_limit,
            begun,
            phases: Vec::new(),
            entered: begun,
        }
    }

    pub(super) fn enter(&mut self, phase: Phase) {
        self.close_phase();
        self.entered = Instant::now();
        debug!(server = %self.shared.server, %phase, "termination phase");
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
            server: self.shared.server.clone(),
            identity: self.shared.terminator.identity(),
            reason,
            exit,
            phases: self.phases,
            gone,
            containment: self.shared.terminator.semantics().containment,
            took: self.begun.elapsed(),
        })
    }

    pub(super) async fn error(
        mut self,
        reason: EndReason,
        cause: Option<StepError>,
    ) -> TerminateError {
        self.close_phase();
        let terminator = &self.shared.terminator;
        let (survivors, unknown) = match timeout(self.report_limit, terminator.survivors()).await {
            Ok(Ok(survivors)) => (survivors, None),
            Ok(Err(error)) => (Vec::new(), Some(error.to_string())),
            Err(_) => (Vec::new(), Some("the launcher does not answer".to_owned())),
        };
        TerminateErrorContext {
            server: self.shared.server.clone(),
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

impl Shared {
    /// Returns the outcome of an attempt that was dropped before it had one.
    pub(super) fn task_lost(&self, reason: EndReason) -> TerminateError {
        TerminateErrorContext {
            server: self.server.clone(),
            identity: self.terminator.identity(),
            reason,
            survivors: Vec::new(),
            cause: Some(
                "the task of the termination is gone, with its runtime or by a panic; the server \
                 was killed and the proof is outstanding"
                    .to_owned(),
            ),
            phases: Vec::new(),
            took: Duration::ZERO,
        }
        .into()
    }
}

pub(super) fn trace(outcome: &TerminationOutcome) {
    match outcome {
        Ok(report) => info!(
            server = %report.server,
            identity = %report.identity,
            reason = report.reason.as_str(),
            exit = %report.exit,
            phase = report.ended_in().map(Phase::as_str),
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
                reason = context.reason.as_str(),
                survivors = context.survivors.len(),
                took_ms = context.took.as_millis() as u64,
                %error,
                "server not proven gone"
            );
        }
    }
}
