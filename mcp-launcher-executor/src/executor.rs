//! The seam: [`Executor`] starts processes elsewhere, [`RemoteProcess`] is one of them.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use mcp_lifecycle_core::launch::{
    BoxRead, BoxWrite, ExitStatus, Gone, ReapReport, Remnant, ServerIdentity, TerminationSemantics,
};

use crate::{ExecutorError, RemoteCommand};

/// A runtime on another machine that starts processes and carries their stdio.
///
/// Implement it for your own runtime (a job queue, a micro-VM);
/// [`ExecutorLauncher`](crate::ExecutorLauncher) turns it into a launcher.
///
/// # Contract
///
/// * **No gap.** A [`start`](Self::start) that fails or is dropped leaves nothing behind. If the
///   remote side cannot cancel a start, the executor keeps owning it and undoes it.
/// * **Bounded.** Unlike a launcher, an executor has its protocol's clocks: no method waits for
///   ever on a peer that does not answer.
/// * **No stranger.** Only what this executor started is ended.
#[async_trait]
pub trait Executor: fmt::Debug + Send + Sync + 'static {
    /// Returns the executor's readable name: a URL or a command, without secrets.
    fn name(&self) -> String;

    /// Identifies equivalent executors across instances, like
    /// [`ServerLauncher::fingerprint`](mcp_lifecycle_core::launch::ServerLauncher::fingerprint) for
    /// launchers. `None`, the default, means that it equals only itself.
    fn fingerprint(&self) -> Option<String> {
        None
    }

    /// Returns the abilities of the next process.
    fn semantics(&self) -> TerminationSemantics;

    /// Starts a process.
    ///
    /// # Errors
    ///
    /// [`ExecutorError`] if the peer refused, was not reachable, or did not answer in time. Nothing
    /// is left behind in any case.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a start in flight is undone.
    async fn start(&self, command: &RemoteCommand) -> Result<StartedProcess, ExecutorError>;

    /// Ends leftovers of dead hosts on that machine, if the executor can identify them.
    ///
    /// # Errors
    ///
    /// [`ExecutorError`] when the search itself failed.
    async fn reap_orphans(&self) -> Result<ReapReport, ExecutorError>;
}

/// A process that an [`Executor`] started.
pub struct StartedProcess {
    /// The process's stdin. Shutting it down or dropping it closes it there, if
    /// [`TerminationSemantics::stdin_eof`] holds.
    pub stdin: BoxWrite,
    /// The process's stdout.
    pub stdout: BoxRead,
    /// The process's stderr, if separate.
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
/// Every method may be called concurrently, again after success, and after the process has ended.
/// Dropping a future undoes nothing.
#[async_trait]
pub trait RemoteProcess: fmt::Debug + Send + Sync + 'static {
    /// Returns the process's identity.
    fn identity(&self) -> ServerIdentity;

    /// Returns the abilities of this process.
    fn semantics(&self) -> TerminationSemantics;

    /// Completes when its main process has ended.
    async fn wait(&self) -> ExitStatus;

    /// Asks all of it to end, with SIGTERM or an equivalent.
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
    /// [`ExecutorError`] when no proof is possible any more.
    async fn gone(&self) -> Result<Gone, ExecutorError>;

    /// Lists the living parts of the process.
    ///
    /// # Errors
    ///
    /// [`ExecutorError`] when they cannot be determined.
    async fn survivors(&self) -> Result<Vec<Remnant>, ExecutorError>;

    /// Requests [`terminate`](Self::terminate) without waiting, in any context, even outside a
    /// runtime.
    fn terminate_now(&self);
}

/// Fails to compile unless both traits are dyn compatible.
const _: fn(&dyn Executor, &dyn RemoteProcess) = |_, _| {};
