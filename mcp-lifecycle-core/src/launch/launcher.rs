use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use super::{
    LaunchContext, LaunchError, LaunchedServer, ProcessTerminator, ReapError, ReapReport, Remnant,
    ServerSpec, TerminationSemantics,
};

/// Starts stdio MCP servers somewhere: a process, a container, a remote process.
///
/// # Contract
///
/// A launcher supplies primitives; the order of an end, its clocks and its report are this crate's.
/// The conformance kit (`mcp-lifecycle-conformance`) checks all of it.
///
/// * **No gap.** When the future of [`launch`](Self::launch) is dropped at any await point, or
///   returns an error, nothing of the server is left: no process, container, descriptor, or remote
///   start with an unknown outcome. A start that cannot be cancelled stays owned, in a task of the
///   launcher's, and is undone.
/// * **No clock.** The caller bounds `launch` with its start-up deadline.
/// * **No blocking.** No poll of a future blocks the thread.
/// * **No thread.** The life of a server depends on no thread of the host. A server that is to end
///   with its host does not end with the thread that started it.
/// * **No stranger.** Nothing is ended that is identified only by a pid, a name or an image.
#[async_trait]
pub trait ServerLauncher: fmt::Debug + Send + Sync + 'static {
    /// A short stable name for logs, errors and configuration: `"local"`.
    fn name(&self) -> &str;

    /// Identifies equivalent launchers: a host that creates its launchers anew, as it reloads its
    /// configuration, keeps the servers of those with equal names and fingerprints.
    ///
    /// It covers every setting that affects the process or its containment, holds no secret, and
    /// need not be stable across versions or hosts. `None`, the default: equals only itself, by its
    /// `Arc`.
    fn fingerprint(&self) -> Option<String> {
        None
    }

    /// Returns the steps of an end that its next server supports, and their reach, including a
    /// fallback on this machine. Starts nothing and never blocks. A launcher that learns them by its
    /// first launch promises nothing before that.
    fn semantics(&self) -> TerminationSemantics;

    /// Fetches what a launch of `spec` needs and lacks, such as an image, so that a slow download
    /// does not use up the start-up deadline. Starts no server; a launch also works without it. The
    /// default does nothing. Cancel safe: downloads may be kept, and may be completed.
    async fn prepare(&self, spec: &ServerSpec, context: &LaunchContext) -> Result<(), LaunchError> {
        let _ = (spec, context);
        Ok(())
    }

    /// Starts the server that `spec` describes. Cancel safe: see the contract above.
    ///
    /// # Errors
    ///
    /// A [`LaunchError`] names the command, the problem and its remedy.
    async fn launch(
        &self,
        spec: &ServerSpec,
        context: &LaunchContext,
    ) -> Result<LaunchedServer, LaunchError>;

    /// Lists remnants that ended launches of the server of this name may still create, such as a
    /// container that an engine has not confirmed yet. They are removed once created. Never blocks;
    /// empty by default.
    fn unfinished(&self, server: &str) -> Vec<Remnant> {
        let _ = server;
        Vec::new()
    }

    /// Finds and ends what earlier hosts, now proven dead, left behind. Leaves servers of a living
    /// host, of this host, and of another machine alone.
    ///
    /// # Errors
    ///
    /// [`ReapError`] when the search itself failed. What could not be ended or examined is in the
    /// report, and its record is kept for the next search.
    async fn reap_orphans(&self) -> Result<ReapReport, ReapError>;
}

/// Fails to compile unless both traits are dyn compatible.
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
