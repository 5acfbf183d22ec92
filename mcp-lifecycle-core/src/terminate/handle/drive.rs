//! Drives the [`Ladder`] of one termination: the clocks and the I/O.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tracing::{debug, info, warn};

use super::rung::{Happened, Rung};
use super::{Run, Shared, TerminationOutcome};
use crate::launch::error::step::StepError;
use crate::launch::exit::ExitStatus;
use crate::launch::proof::{EvidenceList, Gone};
use crate::launch::terminator::ProcessTerminator;
use crate::terminate::error::{TerminateError, TerminateErrorContext};
use crate::terminate::ladder::{Event, Ladder, Phase, Step};
use crate::terminate::policy::TerminationPolicy;
use crate::terminate::report::{EndReason, PhaseRecord, TerminationReport};

/// Runs one termination and publishes its outcome to every caller.
///
/// Dropping the returned future, polled or not, kills the server.
pub(super) fn run(
    shared: Arc<Shared>,
    policy: TerminationPolicy,
    reason: EndReason,
    begun: Instant,
    outcome: watch::Sender<Option<TerminationOutcome>>,
) -> impl Future<Output = TerminationOutcome> + Send + use<> {
    let mut guard = KillUnlessDone {
        shared,
        done: false,
    };
    async move {
        let result = terminate(&guard.shared, &policy, reason, begun).await;
        guard.done = true;
        trace(&result);
        *guard.shared.lock() = match &result {
            Ok(report) => Run::Gone(Arc::clone(report)),
            Err(_) => Run::Idle,
        };
        outcome.send_replace(Some(result.clone()));
        result
    }
}

/// A runtime that shuts down drops the task at an await point.
struct KillUnlessDone {
    shared: Arc<Shared>,
    done: bool,
}

impl Drop for KillUnlessDone {
    fn drop(&mut self) {
        if !self.done {
            self.shared.kill_now();
        }
    }
}

async fn terminate(
    shared: &Shared,
    policy: &TerminationPolicy,
    reason: EndReason,
    begun: Instant,
) -> TerminationOutcome {
    let terminator = &*shared.terminator;
    let mut climb = Climb::new(shared, policy.report_limit, begun);
    let mut ladder = Ladder::new(policy, &terminator.semantics());
    let mut exited = terminator.exited();
    let mut question = Question::new(terminator);
    let mut exit: Option<ExitStatus> = None;

    // What is true already, without waiting.
    let mut step = tokio::select! {
        biased;
        proof = question.proof() => {
            return Ok(climb.report(reason, &mut exited, exit, proof).await);
        }
        status = &mut exited => {
            exit = Some(status);
            ladder.begin(true)
        }
        () = std::future::ready(()) => ladder.begin(false),
    };
    let mut rung = Rung::none(begun);
    loop {
        match step {
            Step::Enter { phase, wait } => {
                rung = climb.enter(phase, wait);
                question.ask_again();
            }
            Step::Wait => {}
            Step::Unproven => return Err(climb.error(reason, question.cause).await),
        }
        step = tokio::select! {
            biased;
            proof = question.proof() => {
                return Ok(climb.report(reason, &mut exited, exit, proof).await);
            }
            status = &mut exited, if exit.is_none() => {
                exit = Some(status);
                question.ask_again();
                ladder.on(Event::MainExited)
            }
            happened = rung.next() => match happened {
                Happened::Done => {
                    question.ask_again();
                    Step::Wait
                }
                Happened::Failed(error) if rung.is_force() => {
                    climb.failed(error.to_string());
                    shared.kill_now();
                    question.ask_again();
                    Step::Wait
                }
                Happened::Failed(error) => {
                    climb.failed(error.to_string());
                    ladder.on(Event::TimedOut)
                }
                Happened::Overdue => {
                    shared.kill_now();
                    question.ask_again();
                    Step::Wait
                }
                Happened::TimedOut { unacknowledged } => {
                    if let Some(wait) = unacknowledged {
                        climb.failed(format!("not acknowledged within {wait:?}"));
                    }
                    ladder.on(Event::TimedOut)
                }
            },
        };
    }
}

/// The question to a launcher whether its server is gone.
struct Question<'a> {
    terminator: &'a dyn ProcessTerminator,
    /// The answer to come; `None` after one that was no proof.
    gone: Option<Answer<'a>>,
    /// The reason the last answer was no proof.
    cause: Option<StepError>,
}

type Answer<'a> = Pin<Box<dyn Future<Output = Result<Gone, StepError>> + Send + 'a>>;

impl<'a> Question<'a> {
    fn new(terminator: &'a dyn ProcessTerminator) -> Self {
        Self {
            terminator,
            gone: Some(terminator.gone()),
            cause: None,
        }
    }

    /// Asks once more, if there was an answer: what could not be proven before may be now.
    fn ask_again(&mut self) {
        self.gone.get_or_insert_with(|| self.terminator.gone());
    }

    /// Completes with the proof. Cancel safe.
    async fn proof(&mut self) -> Gone {
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

/// The account of the rungs climbed so far.
struct Climb<'a> {
    shared: &'a Shared,
    report_limit: Duration,
    begun: Instant,
    phases: Vec<PhaseRecord>,
    entered: Instant,
}

impl<'a> Climb<'a> {
    fn new(shared: &'a Shared, report_limit: Duration, begun: Instant) -> Self {
        Self {
            shared,
            report_limit,
            begun,
            phases: Vec::new(),
            entered: begun,
        }
    }

    /// Begins to do what a phase says.
    fn enter(&mut self, phase: Phase, wait: Duration) -> Rung<'a> {
        self.close_phase();
        self.entered = Instant::now();
        debug!(server = %self.shared.server, %phase, "termination phase");
        self.phases.push(PhaseRecord {
            phase,
            took: Duration::ZERO,
            failure: None,
        });
        Rung::new(self.shared, phase, wait)
    }

    fn close_phase(&mut self) {
        if let Some(last) = self.phases.last_mut() {
            last.took = self.entered.elapsed();
        }
    }

    fn failed(&mut self, failure: String) {
        if let Some(last) = self.phases.last_mut() {
            last.failure = Some(failure);
        }
    }

    async fn report(
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

    async fn error(mut self, reason: EndReason, cause: Option<StepError>) -> TerminateError {
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

fn trace(outcome: &TerminationOutcome) {
    match outcome {
        Ok(report) => info!(
            server = %report.server,
            identity = %report.identity,
            reason = report.reason.as_str(),
            exit = %report.exit,
            phase = report.ended_in().map(Phase::as_str),
            swept = report.gone.swept_count,
            proof = %EvidenceList(&report.gone.evidence),
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
