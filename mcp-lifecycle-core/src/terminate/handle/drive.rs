//! Drives the [`Ladder`] of one termination: the clocks, the I/O and the report.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};
use tracing::{debug, info, warn};

use super::{Attempt, Shared, TerminationOutcome};
use crate::launch::remnant::list;
use crate::launch::{ExitStatus, Gone, ProcessTerminator, StepError};
use crate::terminate::ladder::{Event, Ladder, Step};
use crate::terminate::timing::after;
use crate::terminate::{
    EndReason, Phase, PhaseRecord, TerminateError, TerminateErrorContext, TerminationPolicy,
    TerminationReport,
};

impl Attempt {
    /// Climbs the ladder. The report's clock starts at `begun`.
    pub(crate) async fn climb(
        &self,
        policy: &TerminationPolicy,
        reason: EndReason,
        begun: Instant,
    ) -> TerminationOutcome {
        let outcome = terminate(&self.shared, policy, reason, begun).await;
        trace(&outcome);
        outcome
    }
}

async fn terminate(
    shared: &Shared,
    policy: &TerminationPolicy,
    reason: EndReason,
    begun: Instant,
) -> TerminationOutcome {
    let terminator = &*shared.terminator;
    let mut record = Record::new(shared, policy.report_limit, begun);
    let mut ladder = Ladder::new(policy, &terminator.semantics());
    let mut exited = terminator.exited();
    let mut question = Question::new(terminator);
    let mut exit: Option<ExitStatus> = None;

    // First, events that have already happened.
    let mut step = tokio::select! {
        biased;
        proof = question.proof() => {
            return Ok(record.report(reason, &mut exited, exit, proof).await);
        }
        status = &mut exited => {
            exit = Some(status);
            ladder.begin(true)
        }
        () = std::future::ready(()) => ladder.begin(false),
    };
    let mut rung = Rung::new(shared, Phase::Stragglers, Duration::ZERO);
    loop {
        match step {
            Step::Enter { phase, wait } => {
                record.enter(phase);
                rung = Rung::new(shared, phase, wait);
                question.ask_again();
            }
            Step::Wait => {}
            Step::Unproven => return Err(record.error(reason, question.cause).await),
        }
        step = tokio::select! {
            biased;
            proof = question.proof() => {
                return Ok(record.report(reason, &mut exited, exit, proof).await);
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
                Happened::Failed(error) if !rung.is_force() => {
                    record.failed(error.to_string());
                    ladder.on(Event::TimedOut)
                }
                Happened::Failed(_) | Happened::Overdue => {
                    if let Happened::Failed(error) = happened {
                        record.failed(error.to_string());
                    }
                    shared.kill_now();
                    question.ask_again();
                    Step::Wait
                }
                Happened::TimedOut { unacknowledged } => {
                    if let Some(wait) = unacknowledged {
                        record.failed(format!("not acknowledged within {wait:?}"));
                    }
                    ladder.on(Event::TimedOut)
                }
            },
        };
    }
}

/// The request to a launcher for the proof.
struct Question<'a> {
    terminator: &'a dyn ProcessTerminator,
    /// The pending answer; `None` after a failure.
    gone: Option<Answer<'a>>,
    /// The reason of the last failure.
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

    /// Requests the proof again after a failure.
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

type Action<'a> = Pin<Box<dyn Future<Output = Result<(), StepError>> + Send + 'a>>;

/// The action on a rung, which runs beside the rung's wait.
struct Rung<'a> {
    phase: Phase,
    action: Option<Action<'a>>,
    /// The time at which the synchronous kill replaces an unacknowledged forced end.
    overdue: Option<Instant>,
    wait: Duration,
    deadline: Instant,
}

enum Happened {
    Done,
    Failed(StepError),
    /// The forced end was not acknowledged in time.
    Overdue,
    /// The wait is over. Holds how long the action ran, if it was never acknowledged.
    TimedOut {
        unacknowledged: Option<Duration>,
    },
}

impl<'a> Rung<'a> {
    fn new(shared: &'a Shared, phase: Phase, wait: Duration) -> Self {
        let terminator = &shared.terminator;
        let action: Option<Action<'a>> = match phase {
            Phase::CloseStdin => Some(Box::pin(async {
                shared.stdin.close().await;
                Ok(())
            })),
            Phase::Stragglers => None,
            Phase::RequestEnd => Some(terminator.request_end()),
            Phase::ForceEnd => Some(terminator.force_end()),
        };
        let now = Instant::now();
        Self {
            phase,
            action,
            overdue: (phase == Phase::ForceEnd).then(|| after(now, wait / 2)),
            wait,
            deadline: after(now, wait),
        }
    }

    fn is_force(&self) -> bool {
        self.phase == Phase::ForceEnd
    }

    /// Returns the next event. Each but the last occurs once.
    async fn next(&mut self) -> Happened {
        let acting = self.action.is_some();
        let done = async {
            match &mut self.action {
                Some(action) => action.as_mut().await,
                None => std::future::pending().await,
            }
        };
        let overdue = async {
            match self.overdue {
                Some(at) if acting => sleep_until(at).await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            done = done => {
                self.action = None;
                match done {
                    Ok(()) => Happened::Done,
                    Err(error) => Happened::Failed(error),
                }
            }
            () = sleep_until(self.deadline) => Happened::TimedOut {
                unacknowledged: acting.then_some(self.wait),
            },
            () = overdue => {
                self.overdue = None;
                Happened::Overdue
            }
        }
    }
}

struct Record<'a> {
    shared: &'a Shared,
    report_limit: Duration,
    begun: Instant,
    phases: Vec<PhaseRecord>,
    entered: Instant,
}

impl<'a> Record<'a> {
    fn new(shared: &'a Shared, report_limit: Duration, begun: Instant) -> Self {
        Self {
            shared,
            report_limit,
            begun,
            phases: Vec::new(),
            entered: begun,
        }
    }

    fn enter(&mut self, phase: Phase) {
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
