//! [`ServerHandle`]: the ownership of one running server.

mod drive;
mod rung;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::runtime::Handle;
use tokio::sync::watch;

use super::callback::guarded;
use super::error::{TerminateError, TerminateErrorContext};
use super::policy::TerminationPolicy;
use super::report::{EndReason, TerminationReport};
use super::stdin::{ServerStdin, StdinCloser};
use crate::launch::exit::ExitStatus;
use crate::launch::identity::ServerIdentity;
use crate::launch::launched::BoxWrite;
use crate::launch::semantics::TerminationSemantics;
use crate::launch::terminator::ProcessTerminator;

/// The result that every caller of one termination gets.
pub type TerminationOutcome = Result<Arc<TerminationReport>, TerminateError>;

/// Owns one running server and is the only thing that ends it in order.
///
/// The handle is not `Clone`, and nothing else keeps a server alive: neither a clone of
/// a peer held by a forgotten task, nor a transport, nor a runtime.
///
/// # Drop
///
/// Dropping the handle kills the server synchronously, in any context: inside
/// or outside a runtime, during a panic, after the runtime has gone. If a
/// termination is under way it goes on instead.
pub struct ServerHandle {
    shared: Arc<Shared>,
}

struct Shared {
    server: String,
    terminator: Arc<dyn ProcessTerminator>,
    stdin: StdinCloser,
    /// The runtime of a termination that is asked for outside any runtime.
    runtime: Option<Handle>,
    run: Mutex<Run>,
    started: Instant,
}

/// The one termination that all callers share.
enum Run {
    /// Not asked for yet, or the last attempt failed.
    Idle,
    /// Under way; its outcome will be here.
    Running(Outcome),
    /// Proven gone.
    Gone(Arc<TerminationReport>),
}

/// Where the outcome of a run will be.
type Outcome = watch::Receiver<Option<TerminationOutcome>>;

/// The runner of a termination that somebody asks for.
enum Claim<R> {
    /// The one who asks.
    Mine(R, Outcome),
    /// Somebody else already.
    Joined(Outcome),
    /// Nobody any more.
    Gone(Arc<TerminationReport>),
}

impl ServerHandle {
    /// Takes over the ownership of a launched server, and hands out its
    /// standard input in a form that the handle can close.
    ///
    /// Called inside a runtime, the handle remembers it and runs the
    /// termination there if it is asked for from outside any runtime.
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
                run: Mutex::new(Run::Idle),
                started: Instant::now(),
            }),
        };
        (handle, stdin)
    }

    /// The identity of the server.
    pub fn identity(&self) -> ServerIdentity {
        self.shared.terminator.identity()
    }

    /// The steps of an end that the server allows, and their reach.
    pub fn semantics(&self) -> TerminationSemantics {
        self.shared.terminator.semantics()
    }

    /// The time when it was taken over.
    pub fn started(&self) -> Instant {
        self.shared.started
    }

    /// Completes when the main process has ended.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn exited(&self) -> ExitStatus {
        self.shared.terminator.exited().await
    }

    /// A future like [`exited`](Self::exited) that does not borrow the handle
    /// and does not keep the server alive.
    pub fn watch_exit(&self) -> impl Future<Output = ExitStatus> + Send + use<> {
        let terminator = Arc::clone(&self.shared.terminator);
        async move { terminator.exited().await }
    }

    /// Ends the server in order and returns the proof.
    ///
    /// Concurrent and repeated calls share one run, whose policy and reason are
    /// those of the first, and get the same report. Keep reading the server's
    /// output meanwhile: a server that is stuck in a write cannot leave.
    ///
    /// # Errors
    ///
    /// [`TerminateError`] names what is still alive, after
    /// [`TerminationPolicy::longest`] at most. Calling again tries again.
    ///
    /// # Cancel safety
    ///
    /// The termination runs in its own task. Dropping this future does not
    /// stop it, and a later call joins it.
    pub async fn terminate(
        &self,
        policy: &TerminationPolicy,
        reason: EndReason,
    ) -> TerminationOutcome {
        let mut outcome = match self.start(policy, &reason) {
            Ok(running) => running,
            Err(gone) => return Ok(gone),
        };
        // Bound first: the guard of a `watch` must not live across the match.
        let done = outcome.wait_for(Option::is_some).await.map(|o| o.clone());
        match done {
            Ok(Some(outcome)) => outcome,
            // The task was dropped with its runtime; its guard has killed the
            // server, and nobody is left to wait for the proof.
            Ok(None) | Err(_) => Err(self.shared.runtime_lost(reason)),
        }
    }

    /// Starts the termination, if it is not under way, without waiting for it.
    pub fn begin_termination(&self, policy: &TerminationPolicy, reason: EndReason) {
        let _ = self.start(policy, &reason);
    }

    /// The last resort: kills the server synchronously.
    ///
    /// A termination that is under way notices and completes with its proof.
    ///
    /// A panic of the launcher's is logged.
    pub fn kill_now(&self) {
        self.shared.kill_now();
    }

    /// Returns whether the server is proven gone.
    pub fn is_gone(&self) -> bool {
        matches!(*self.shared.lock(), Run::Gone(_))
    }

    fn start(
        &self,
        policy: &TerminationPolicy,
        reason: &EndReason,
    ) -> Result<Outcome, Arc<TerminationReport>> {
        match self.claim(policy, reason, tokio::time::Instant::now()) {
            Claim::Gone(report) => Err(report),
            Claim::Joined(outcome) => Ok(outcome),
            Claim::Mine(run, outcome) => {
                match Handle::try_current().ok().or(self.shared.runtime.clone()) {
                    Some(runtime) => drop(runtime.spawn(run)),
                    // No runtime at all: dropping the run kills, synchronously.
                    None => drop(run),
                }
                Ok(outcome)
            }
        }
    }

    /// The one run, for the first who asks for it.
    fn claim(
        &self,
        policy: &TerminationPolicy,
        reason: &EndReason,
        begun: tokio::time::Instant,
    ) -> Claim<impl Future<Output = TerminationOutcome> + Send + use<>> {
        let mut run = self.shared.lock();
        match &*run {
            Run::Gone(report) => return Claim::Gone(Arc::clone(report)),
            Run::Running(outcome) if outcome.has_changed().is_ok() => {
                return Claim::Joined(outcome.clone());
            }
            // The run was lost together with its runtime, or there was none.
            Run::Running(_) | Run::Idle => {}
        }
        let (sender, receiver) = watch::channel(None);
        *run = Run::Running(receiver.clone());
        drop(run);
        let shared = Arc::clone(&self.shared);
        let run = drive::run(shared, policy.clone(), reason.clone(), begun, sender);
        Claim::Mine(run, receiver)
    }
}

/// Methods for the owner of a connection.
#[cfg(feature = "client")]
impl ServerHandle {
    /// Like [`terminate`](Self::terminate), but runs in the caller's own task
    /// unless somebody else's run is joined: for a task that only exists to own
    /// the server, and whose loss must kill it.
    ///
    /// The report's clock began at `begun`.
    pub(crate) async fn terminate_here(
        &self,
        policy: &TerminationPolicy,
        reason: EndReason,
        begun: tokio::time::Instant,
    ) -> TerminationOutcome {
        match self.claim(policy, &reason, begun) {
            Claim::Mine(run, _) => run.await,
            Claim::Joined(_) | Claim::Gone(_) => self.terminate(policy, reason).await,
        }
    }

    /// Completes when the launcher can prove that the server is gone; never, if it
    /// says that it cannot.
    #[cfg(feature = "fleet")]
    pub(crate) async fn provable(&self) {
        if self.shared.terminator.gone().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// The error of a termination whose task has gone.
    pub(crate) fn lost(&self, reason: EndReason) -> TerminateError {
        self.shared.runtime_lost(reason)
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        let idle = matches!(*self.shared.lock(), Run::Idle);
        if !idle {
            return;
        }
        self.kill_now();
        // The proof and its trace still follow, if anything can run them.
        self.begin_termination(&TerminationPolicy::immediate(), EndReason::OwnerDropped);
    }
}

impl fmt::Debug for ServerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerHandle")
            .field("server", &self.shared.server)
            .field("identity", &self.identity())
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Run> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called in `Drop`, during a panic too: a launcher that panics must not end the host.
    fn kill_now(&self) {
        guarded("the launcher's last resort", &self.server, || {
            self.terminator.kill_now();
        });
    }

    fn runtime_lost(&self, reason: EndReason) -> TerminateError {
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
            took: std::time::Duration::ZERO,
        }
        .into()
    }
}
