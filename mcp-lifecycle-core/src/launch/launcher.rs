//! The two seams of the project: [`ServerLauncher`] starts a server,
//! [`ProcessTerminator`](crate::launch::ProcessTerminator) ends it.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use super::context::LaunchContext;
use super::error::launch::LaunchError;
use super::error::step::ReapError;
use super::launched::LaunchedServer;
use super::reap::ReapReport;
use super::remnant::Remnant;
use super::semantics::TerminationSemantics;
use super::spec::ServerSpec;
use super::terminator::ProcessTerminator;

/// Starts stdio MCP servers somewhere: a process, a container, a remote process.
///
/// # Contract
///
/// This trait is a contract between launcher implementations and this crate.
/// Policy (the order of the shutdown, its clocks, sharing one termination
/// between callers, the report) lives in this crate; a launcher supplies
/// primitives.
///
/// * **No gap.** When the future of [`launch`](Self::launch) is dropped at any
///   await point, or returns an error, nothing of the server is left: no
///   process, no container, no remote start whose outcome is unknown, no file
///   descriptor. Where the far side cannot cancel a start, the launcher keeps
///   owning it in its own task and undoes it.
/// * **No clock.** A launcher does not time out by itself; the caller bounds
///   `launch` with its start-up deadline.
/// * **No blocking.** No poll of a future blocks the thread. What blocks is done on a
///   thread of the launcher's, or of the runtime's pool for such work.
/// * **No thread.** The life of a server depends on no thread of the host. A server that
///   is to end with its host does not end with the thread that started it.
/// * **No stranger.** Nothing is ended that cannot be identified beyond a bare
///   pid, a name or an image.
///
/// The conformance kit (`mcp-lifecycle-conformance`) checks all of it.
#[async_trait]
pub trait ServerLauncher: fmt::Debug + Send + Sync + 'static {
    /// A short stable name for logs, errors and configuration: `"local"`.
    fn name(&self) -> &str;

    /// Tells launchers that start the same server in the same place and the same way
    /// from others, across instances: a host that reads its configuration again and
    /// makes its launchers anew keeps its running servers if their fingerprints are
    /// equal.
    ///
    /// Launchers of one [`name`](Self::name) are interchangeable if their fingerprints
    /// are equal. It covers every setting that makes the process or its containment,
    /// shows no secret, and need not be stable across versions or hosts. `None`, the
    /// default, means that this launcher is equal only to itself, by its `Arc`.
    fn fingerprint(&self) -> Option<String> {
        None
    }

    /// The steps of an end that this launcher's servers allow, and their reach.
    ///
    /// The values describe the next launch; a launcher that falls back to less
    /// on some machines says so here. Reads what is known: starts nothing and
    /// never blocks. A launcher that learns it by its first launch promises
    /// nothing before that, and says that it is not known yet.
    fn semantics(&self) -> TerminationSemantics;

    /// Fetches what a launch of `spec` needs and does not have: an image, a package.
    ///
    /// Callers do this before they launch, so that a slow download does not use up the
    /// start-up deadline. It starts no server, and a launch does without it. `Ok` at
    /// once, the default, for a launcher with nothing to fetch.
    ///
    /// # Errors
    ///
    /// [`LaunchError`], as [`launch`](Self::launch).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: what was fetched may stay, and may be fetched to its end.
    async fn prepare(&self, spec: &ServerSpec, context: &LaunchContext) -> Result<(), LaunchError> {
        let _ = (spec, context);
        Ok(())
    }

    /// Starts the server that `spec` describes.
    ///
    /// # Errors
    ///
    /// A [`LaunchError`] names the command, what is wrong and what to do.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future leaves nothing behind (see the
    /// contract above).
    async fn launch(
        &self,
        spec: &ServerSpec,
        context: &LaunchContext,
    ) -> Result<LaunchedServer, LaunchError>;

    /// Remnants that launches of the server of this name, whose futures have ended without a
    /// server, may still bring about: a container whose create an engine has not
    /// answered yet. It is undone when it comes true.
    ///
    /// Reads what is known: never blocks. Empty, the default, for a launcher whose
    /// launches are undone when their futures end.
    fn unfinished(&self, server: &str) -> Vec<Remnant> {
        let _ = server;
        Vec::new()
    }

    /// Finds and ends what earlier hosts, now proven dead, left behind.
    ///
    /// Servers of a living host, of this host, and of another machine are not
    /// touched. A launcher that can leave nothing behind returns an empty report.
    /// What could not be looked at is never taken for absent: it is in
    /// [`ReapReport::unknown`], and its record is kept for the next search.
    ///
    /// # Errors
    ///
    /// [`ReapError`] when the search itself failed; what could not be ended is
    /// listed in the report, not an error.
    async fn reap_orphans(&self) -> Result<ReapReport, ReapError>;
}

/// `dyn` is a promise: this fails to compile when it is broken.
const _: fn(&dyn ServerLauncher, &dyn ProcessTerminator) = |_, _| {};

macro_rules! forward {
    ($pointer:ident) => {
        #[async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl<T: ServerLauncher + ?Sized> ServerLauncher for $pointer<T> {
            fn name(&self) -> &str {
                (**self).name()
            }
            fn fingerprint(&self) -> Option<String> {
                (**self).fingerprint()
            }
            fn semantics(&self) -> TerminationSemantics {
                (**self).semantics()
            }
            async fn prepare(
                &self,
                spec: &ServerSpec,
                context: &LaunchContext,
            ) -> Result<(), LaunchError> {
                (**self).prepare(spec, context).await
            }
            async fn launch(
                &self,
                spec: &ServerSpec,
                context: &LaunchContext,
            ) -> Result<LaunchedServer, LaunchError> {
                (**self).launch(spec, context).await
            }
            fn unfinished(&self, server: &str) -> Vec<Remnant> {
                (**self).unfinished(server)
            }
            async fn reap_orphans(&self) -> Result<ReapReport, ReapError> {
                (**self).reap_orphans().await
            }
        }
    };
}

forward!(Arc);
forward!(Box);
