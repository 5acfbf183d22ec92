#[cfg(feature = "client")]
mod connection;

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until};

use super::callback::guarded;
use super::ladder::{Event, Ladder, Step};
use super::report::{Record, trace};
use super::stdin::StdinCloser;
use super::timing::after;
use super::{EndReason, Phase, ServerStdin, TerminateError, TerminationPolicy, TerminationReport};
use crate::launch::macros::debug_fields;
use crate::launch::{
    BoxWrite, ExitStatus, ProcessTerminator, ServerIdentity, StepError, TerminationSemantics,
};
use crate::lock::Lock;

/// The result that all callers of one termination share.
pub type TerminationOutcome = Result<Arc<TerminationReport>, TerminateError>;

/// Owns one running server. Nothing else keeps it alive, and only the handle ends it in order.
///
/// # Drop
///
/// Dropping the handle kills the server synchronously, in any context: inside or outside a runtime,
/// during a panic, after the end of the runtime. A termination in progress continues instead.
pub struct ServerHandle {
    shared: Arc<Shared>,
}

struct Shared {
    server: String,
    terminator: Arc<dyn ProcessTerminator>,
    stdin: StdinCloser,
    /// The runtime for a termination that is requested outside any runtime.
    runtime: Option<Handle>,
    run: Lock<Run>,
    follower: OnceLock<Arc<dyn Follower>>,
}

#[derive(Default)]
struct Run {
    /// Asks the task that watches over the server to end it. The first request takes it.
    watcher: Option<oneshot::Sender<Request>>,
    /// The outcome of the last attempt. Its sender is gone without one if the task was lost.
    outcome: Option<Outcome>,
}

pub(crate) type Request = (EndReason, TerminationPolicy);
type Outcome = watch::Receiver<Option<TerminationOutcome>>;

/// The state of a connection, which follows the end of its server.
pub(crate) trait Follower: Send + Sync + 'static {
    fn begins(&self, reason: &EndReason);
    fn ended(&self, outcome: &TerminationOutcome);
}

/// The right to end a server, once. Dropping it before [`finish`](Self::finish), as when its
/// runtime ends, kills the server.
pub(crate) struct Attempt {
    shared: Arc<Shared>,
    outcome: Option<watch::Sender<Option<TerminationOutcome>>>,
}

impl ServerHandle {
    /// Takes ownership of a launched server. Returns its stdin in a form that the handle can close.
    /// Terminations that are requested outside any runtime run on the current one.
    pub fn new(
        server: impl Into<String>,
        stdin: BoxWrite,
        terminator: Arc<dyn ProcessTerminator>,
    ) -> (Self, ServerStdin) {
        let (stdin, closer) = ServerStdin::new(stdin);
        let handle = Self {
            shared: Arc::new(Shared {
                server: server.into(),
                terminator,
                stdin: closer,
                runtime: Handle::try_current().ok(),
                run: Lock::default(),
                follower: OnceLock::new(),
            }),
        };
        (handle, stdin)
    }

    /// Returns the server's identity.
    pub fn identity(&self) -> ServerIdentity {
        self.shared.terminator.identity()
    }

    /// Returns the steps of an end that the server supports, and their reach.
    pub fn semantics(&self) -> TerminationSemantics {
        self.shared.terminator.semantics()
    }

    /// Completes when the main process has ended. Cancel safe.
    pub async fn exited(&self) -> ExitStatus {
        self.shared.terminator.exited().await
    }

    /// Ends the server in order and returns the proof.
    ///
    /// Concurrent and repeated calls share one run, with the policy and reason of the first, and
    /// get the same report. Keep reading the server's output meanwhile: a server that is stuck in a
    /// write cannot exit.
    ///
    /// # Errors
    ///
    /// [`TerminateError`] names what is still alive, after [`TerminationPolicy::longest`] at most.
    /// Calling again retries.
    ///
    /// # Cancel safety
    ///
    /// Dropping this future does not stop the termination, and a later call joins it.
    pub async fn terminate(
        &self,
        policy: &TerminationPolicy,
        reason: EndReason,
    ) -> TerminationOutcome {
        // A task may be lost with its runtime; this caller's is alive.
        for _ in 0..2 {
            if let Some(outcome) = known(self.begin(policy, &reason)).await {
                return outcome;
            }
        }
        Err(self.shared.task_lost(reason))
    }

    /// Starts the termination in the background, if it is not in progress.
    pub fn begin_termination(&self, policy: &TerminationPolicy, reason: EndReason) {
        drop(self.begin(policy, &reason));
    }

    /// Kills the server synchronously, as the last resort. A termination in progress completes with
    /// its proof. A panic in the launcher is logged.
    pub fn kill_now(&self) {
        self.shared.kill_now();
    }

    /// Returns whether the server is proven gone.
    pub fn is_gone(&self) -> bool {
        let run = self.shared.run.lock();
        let outcome = run.outcome.as_ref().map(watch::Receiver::borrow);
        outcome.is_some_and(|outcome| matches!(*outcome, Some(Ok(_))))
    }

    /// Lets a task watch over the server: it alone runs the end, when it is asked or by itself.
    #[cfg(feature = "client")]
    pub(crate) fn watch(
        &self,
        follower: Arc<dyn Follower>,
    ) -> (Attempt, oneshot::Receiver<Request>) {
        let (watcher, request) = oneshot::channel();
        let _ = self.shared.follower.set(follower);
        let mut run = self.shared.run.lock();
        run.watcher = Some(watcher);
        (self.shared.attempt(&mut run).0, request)
    }

    fn begin(&self, policy: &TerminationPolicy, reason: &EndReason) -> Outcome {
        let shared = &self.shared;
        let mut run = shared.run.lock();
        let watcher = run.watcher.take();
        let asks =
            watcher.is_some_and(|watcher| watcher.send((reason.clone(), policy.clone())).is_ok());
        let joined = run
            .outcome
            .clone()
            .filter(|outcome| asks || is_joinable(outcome));
        let (outcome, attempt) = match joined {
            Some(outcome) => (outcome, None),
            None => {
                let (attempt, outcome) = shared.attempt(&mut run);
                (outcome, Some(attempt))
            }
        };
        drop(run);
        if let Some(follower) = shared.follower.get().filter(|_| asks || attempt.is_some()) {
            follower.begins(reason);
        }
        if let Some(attempt) = attempt {
            let (policy, reason) = (policy.clone(), reason.clone());
            let begun = Instant::now();
            let end = async move {
                let outcome = attempt.climb(&policy, reason, begun).await;
                attempt.finish(&outcome);
            };
            match Handle::try_current().ok().or(shared.runtime.clone()) {
                Some(runtime) => drop(runtime.spawn(end)),
                // Without a runtime, dropping the attempt kills synchronously.
                None => drop(end),
            }
        }
        outcome
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        let untouched = {
            let run = self.shared.run.lock();
            let failed = |outcome: &Outcome| matches!(*outcome.borrow(), Some(Err(_)));
            match &run.watcher {
                Some(watcher) if !watcher.is_closed() => true,
                _ => run.outcome.as_ref().is_none_or(failed),
            }
        };
        if untouched {
            self.kill_now();
            // The proof and its log still follow if there is a runtime.
            self.begin_termination(&TerminationPolicy::immediate(), EndReason::OwnerDropped);
        }
    }
}

debug_fields!(
    ServerHandle,
    it {
        server: &it.shared.server,
        identity: &it.identity()
    }
);

async fn known(mut outcome: Outcome) -> Option<TerminationOutcome> {
    outcome.wait_for(Option::is_some).await.ok()?.clone()
}

fn is_joinable(outcome: &Outcome) -> bool {
    match &*outcome.borrow() {
        Some(known) => known.is_ok(),
        None => outcome.has_changed().is_ok(),
    }
}

impl Attempt {
    /// Climbs the ladder. The report's clock starts at `begun`.
    pub(crate) async fn climb(
        &self,
        policy: &TerminationPolicy,
        reason: EndReason,
        begun: Instant,
    ) -> TerminationOutcome {
        let shared = &*self.shared;
        let terminator = &*shared.terminator;
        let mut record = Record::new(&shared.server, terminator, policy.report_limit, begun);
        let mut ladder = Ladder::new(policy, &terminator.semantics());
        let mut exited = terminator.exited();
        let mut exit = None;
        let ask = || terminator.gone();
        let (mut gone, mut unproven) = (Some(ask()), None);
        let mut action: Option<Action<'_, ()>> = None;
        let (mut wait, mut deadline, mut overdue) = (Duration::ZERO, None, None);
        let mut forced = false;
        loop {
            // Biased, so that what has already happened counts first, before the first rung too.
            let step = tokio::select! {
                biased;
                proof = done(&mut gone) => match proof {
                    Ok(proof) => return Ok(record.report(reason, &mut exited, exit, proof).await),
                    Err(why) => {
                        unproven = Some(why);
                        Step::Wait
                    }
                },
                status = &mut exited, if exit.is_none() => {
                    exit = Some(status);
                    gone.get_or_insert_with(ask);
                    ladder.on(Event::MainExited)
                }
                acted = done(&mut action) => {
                    let failed = acted.map_err(|error| record.failed(error.to_string())).is_err();
                    if failed && !forced {
                        ladder.on(Event::TimedOut)
                    } else {
                        if failed {
                            shared.kill_now();
                        }
                        gone.get_or_insert_with(ask);
                        Step::Wait
                    }
                }
                () = until(deadline) => {
                    if action.is_some() {
                        record.failed(format!("not acknowledged within {wait:?}"));
                    }
                    ladder.on(Event::TimedOut)
                }
                () = until(overdue), if overdue.is_some() && action.is_some() => {
                    overdue = None;
                    shared.kill_now();
                    gone.get_or_insert_with(ask);
                    Step::Wait
                }
            };
            match step {
                Step::Enter { phase, wait: limit } => {
                    let now = Instant::now();
                    (wait, deadline) = (limit, Some(after(now, limit)));
                    forced = phase == Phase::ForceEnd;
                    // Then the synchronous kill replaces an unacknowledged order.
                    overdue = forced.then(|| after(now, limit / 2));
                    action = shared.action(phase);
                    record.enter(phase);
                    gone.get_or_insert_with(ask);
                }
                Step::Wait => {}
                Step::Unproven => return Err(record.error(reason, unproven).await),
            }
        }
    }

    pub(crate) fn finish(mut self, outcome: &TerminationOutcome) {
        trace(outcome);
        self.shared.ended(outcome);
        if let Some(sender) = self.outcome.take() {
            sender.send_replace(Some(outcome.clone()));
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if self.outcome.is_some() {
            self.shared.kill_now();
            let lost = self.shared.task_lost(EndReason::OwnerDropped);
            self.shared.ended(&Err(lost));
        }
    }
}

impl Shared {
    fn attempt(self: &Arc<Self>, run: &mut Run) -> (Attempt, Outcome) {
        let (sender, outcome) = watch::channel(None);
        run.outcome = Some(outcome.clone());
        let attempt = Attempt {
            shared: Arc::clone(self),
            outcome: Some(sender),
        };
        (attempt, outcome)
    }

    fn action(&self, phase: Phase) -> Option<Action<'_, ()>> {
        match phase {
            Phase::CloseStdin => Some(Box::pin(async {
                self.stdin.close().await;
                Ok(())
            })),
            Phase::Stragglers => None,
            Phase::RequestEnd => Some(self.terminator.request_end()),
            Phase::ForceEnd => Some(self.terminator.force_end()),
        }
    }

    /// Kills the server. Runs in `Drop` and during panics, so that a launcher's panic must not
    /// propagate.
    fn kill_now(&self) {
        guarded("the launcher's last resort", &self.server, || {
            self.terminator.kill_now();
        });
    }

    fn task_lost(&self, reason: EndReason) -> TerminateError {
        TerminateError::task_lost(&self.server, self.terminator.identity(), reason)
    }

    fn ended(&self, outcome: &TerminationOutcome) {
        if let Some(follower) = self.follower.get() {
            follower.ended(outcome);
        }
    }
}

type Action<'a, T> = Pin<Box<dyn Future<Output = Result<T, StepError>> + Send + 'a>>;

/// Completes with the action, and takes it away; never if there is none.
async fn done<T>(action: &mut Option<Action<'_, T>>) -> Result<T, StepError> {
    let Some(acting) = action else {
        return std::future::pending().await;
    };
    let done = acting.await;
    *action = None;
    done
}

async fn until(time: Option<Instant>) {
    if let Some(time) = time {
        sleep_until(time).await;
    }
}
