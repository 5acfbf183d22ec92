//! The seam: [`Executor`] starts processes somewhere else, [`RemoteProcess`]
//! is one of them.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use mcp_lifecycle_core::launch::{
    BoxRead, BoxWrite, ExitStatus, Gone, ReapReport, Remnant, ServerIdentity, TerminationSemantics,
};

use crate::{ExecutorError, RemoteCommand};

/// A runtime on another machine that starts processes and carries their stdio.
///
/// Implement it to plug in a runtime of your own (a job queue, a micro-VM);
/// [`ExecutorLauncher`](crate::ExecutorLauncher) turns it into a launcher.
///
/// # Contract
///
/// * **No gap.** A [`start`](Self::start) whose future is dropped or fails
///   leaves nothing behind, also when the far side cannot cancel a start: then
///   the executor goes on owning it and undoes it.
/// * **Bounded.** Unlike a launcher, an executor has the clocks of its own
///   protocol: no method waits for ever on a peer that does not answer.
/// * **No stranger.** Only what this executor started is ended.
#[async_trait]
pub trait Executor: fmt::Debug + Send + Sync + 'static {
    /// Names the executor for logs and people: a URL or a command, without secrets.
    fn name(&self) -> String;

    /// Tells executors that start processes in the same place from others, across
    /// instances, as [`ServerLauncher::fingerprint`] does for launchers. `None`, the
    /// default, means that it is equal only to itself.
    ///
    /// [`ServerLauncher::fingerprint`]: mcp_lifecycle_core::launch::ServerLauncher::fingerprint
    fn fingerprint(&self) -> Option<String> {
        None
    }

    /// Tells what can be done to the next process that is started.
    fn semantics(&self) -> TerminationSemantics;

    /// Starts a process.
    ///
    /// # Errors
    ///
    /// [`ExecutorError`] says whether the peer refused, was not reachable, or
    /// did not answer in time. Nothing is left behind in any case.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a start under way is undone.
    async fn start(&self, command: &RemoteCommand) -> Result<StartedProcess, ExecutorError>;

    /// Finds out whether it can be reached, and connects if it has to.
    ///
    /// # Errors
    ///
    /// [`ExecutorError`] says why it cannot be reached.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    async fn check(&self) -> Result<(), ExecutorError>;

    /// Ends what dead hosts left behind on that machine, where the executor
    /// can know it.
    ///
    /// # Errors
    ///
    /// [`ExecutorError`] when the search itself failed.
    async fn reap_orphans(&self) -> Result<ReapReport, ExecutorError>;
}

/// A process that an [`Executor`] started.
pub struct StartedProcess {
    /// The standard input. Shutting it down, or dropping it, closes it there,
    /// where [`TerminationSemantics::stdin_eof`] says that it can be closed.
    pub stdin: BoxWrite,
    /// The standard output.
    pub stdout: BoxRead,
    /// The standard error, where it is kept apart.
    pub stderr: Option<BoxRead>,
    /// The handle for everything else.
    pub process: Arc<dyn RemoteProcess>,
}

impl fmt::Debug for StartedProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartedProcess")
            .field("process", &self.process)
            .finish_non_exhaustive()
    }
}

/// One process on another machine.
///
/// Every method may be called by many tasks at once, again after it succeeded,
/// and after the process has gone. Dropping a future undoes nothing.
#[async_trait]
pub trait RemoteProcess: fmt::Debug + Send + Sync + 'static {
    /// Names the process.
    fn identity(&self) -> ServerIdentity;

    /// Tells what can be done to the process.
    fn semantics(&self) -> TerminationSemantics;

    /// Completes when its main process has ended.
    async fn wait(&self) -> ExitStatus;

    /// Asks all of it to end: SIGTERM, or the like of it.
    ///
    /// # Errors
    ///
    /// [`ExecutorError`] when the request was not delivered.
    async fn signal(&self) -> Result<(), ExecutorError>;

    /// Ends all of it by force. Returns once the order is given.
    ///
    /// # Errors
    ///
    /// [`ExecutorError`] when the order was not delivered.
    async fn terminate(&self) -> Result<(), ExecutorError>;

    /// Completes on proof that nothing of it is left.
    ///
    /// # Errors
    ///
    /// [`ExecutorError`] when the proof cannot be had any more.
    async fn gone(&self) -> Result<Gone, ExecutorError>;

    /// Lists what of the process is alive now.
    ///
    /// # Errors
    ///
    /// [`ExecutorError`] when nobody can tell.
    async fn survivors(&self) -> Result<Vec<Remnant>, ExecutorError>;

    /// Gives the order of [`terminate`](Self::terminate) without waiting, in
    /// any context, also outside a runtime.
    fn terminate_now(&self);
}

/// `dyn` is a promise: this fails to compile when it is broken.
const _: fn(&dyn Executor, &dyn RemoteProcess) = |_, _| {};
