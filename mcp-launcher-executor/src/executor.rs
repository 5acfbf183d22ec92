use std::fmt;

use async_trait::async_trait;
use mcp_lifecycle_core::launch::{LaunchedServer, ReapReport, TerminationSemantics};

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
/// * **Bounded.** Unlike a launcher, an executor has its protocol's clocks: no method, nor any of a
///   process's terminator, waits for ever on a peer that does not answer.
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

    /// Starts a process. Shutting down or dropping its stdin closes it there, if
    /// [`TerminationSemantics::stdin_eof`] holds.
    ///
    /// # Errors
    ///
    /// [`ExecutorError`] if the peer refused, was not reachable, or did not answer in time. Nothing
    /// is left behind in any case.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a start in flight is undone.
    async fn start(&self, command: &RemoteCommand) -> Result<LaunchedServer, ExecutorError>;

    /// Ends leftovers of dead hosts on that machine, if the executor can identify them.
    ///
    /// # Errors
    ///
    /// [`ExecutorError`] when the search itself failed.
    async fn reap_orphans(&self) -> Result<ReapReport, ExecutorError>;
}

/// Fails to compile unless the trait is dyn compatible.
const _: fn(&dyn Executor) = |_| {};
