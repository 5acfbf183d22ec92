//! [`LocalLauncher`]: servers as processes on this machine.

use async_trait::async_trait;
use mcp_lifecycle_core::error::{LaunchError, LaunchErrorKind, ReapError};
use mcp_lifecycle_core::{
    LaunchedServer, ReapReport, ServerLauncher, ServerSpec, TerminationSemantics,
};

use crate::command::Command;
use crate::group;

/// Starts servers as processes on this machine.
///
/// The program is looked up in the `PATH` that the server will see, and starts
/// as the leader of a process group of its own, with the environment that the
/// specification allows and no descriptor of the host but its three streams.
///
/// The launcher owns one thread per process of the host, shared by all servers
/// and all launchers, which notices and reaps what has ended. It installs no
/// signal handler, changes no disposition of SIGCHLD, and waits for no process
/// but its own.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct LocalLauncher {}

const NAME: &str = "local";

impl LocalLauncher {
    /// A launcher with the best containment this machine has.
    pub fn new() -> Self {
        Self::default()
    }
}

#[async_trait]
impl ServerLauncher for LocalLauncher {
    fn name(&self) -> &str {
        NAME
    }

    fn semantics(&self) -> TerminationSemantics {
        TerminationSemantics::full(group::containment())
    }

    /// Looks the program up and starts it, on a thread that may block: a path
    /// on a network mount must not stall the runtime.
    async fn launch(&self, spec: &ServerSpec) -> Result<LaunchedServer, LaunchError> {
        let fail = |kind| LaunchError::new(NAME, spec, kind);
        let owned = spec.clone();
        let spawned = tokio::task::spawn_blocking(move || {
            let command = Command::prepare(&owned)?;
            group::spawn(&command)
        });
        // Dropped here, the server is started anyway and killed at once, by the
        // drop of what nobody took.
        match spawned.await {
            Ok(launched) => launched.map_err(fail),
            Err(lost) => Err(fail(LaunchErrorKind::backend(
                "the runtime is shutting down",
                lost,
            ))),
        }
    }

    async fn reap_orphans(&self) -> Result<ReapReport, ReapError> {
        Ok(ReapReport::new())
    }
}
