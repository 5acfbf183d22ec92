//! [`LocalLauncher`]: servers as processes on this machine.

use async_trait::async_trait;
use mcp_lifecycle_core::error::{LaunchError, LaunchErrorKind, ReapError};
use mcp_lifecycle_core::{
    Guarantee, LaunchedServer, ReapReport, ServerLauncher, ServerSpec, TerminationSemantics,
};

use crate::command::Command;
use crate::level::{self, Isolation};
use crate::orphans;

/// Starts servers as processes on this machine.
///
/// The program is looked up in the `PATH` that the server will see, and starts
/// with the environment that the specification allows and no descriptor of the
/// host but its three streams.
///
/// On Linux each server gets a [guardian](Isolation::Guardian) by default. What
/// that gives, or why it is not available, is in
/// [`semantics`](ServerLauncher::semantics); [`require`](Self::require) turns a
/// fallback into an error.
///
/// The launcher owns one thread and one epoll descriptor per process of the
/// host, shared by all servers and all launchers, which notice and reap what
/// has ended. It installs no signal handler, changes no disposition of SIGCHLD,
/// and waits for no process but its own.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct LocalLauncher {
    isolation: Isolation,
    required: Vec<Guarantee>,
}

const NAME: &str = "local";

impl LocalLauncher {
    /// A launcher with the best containment this machine has.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets what holds the processes of a server together.
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// Insists on a guarantee: where this machine cannot give it, launches fail
    /// with [`LaunchErrorKind::Containment`] instead of doing with less.
    #[must_use]
    pub fn require(mut self, guarantee: Guarantee) -> Self {
        self.required.push(guarantee);
        self
    }
}

#[async_trait]
impl ServerLauncher for LocalLauncher {
    fn name(&self) -> &str {
        NAME
    }

    fn fingerprint(&self) -> Option<String> {
        Some(format!("{:?} {:?}", self.isolation, self.required))
    }

    fn semantics(&self) -> TerminationSemantics {
        TerminationSemantics::full(level::containment(self.isolation))
    }

    /// Looks the program up and starts it, on a thread that may block: a path
    /// on a network mount must not stall the runtime.
    async fn launch(&self, spec: &ServerSpec) -> Result<LaunchedServer, LaunchError> {
        let fail = |kind| LaunchError::new(NAME, spec, kind);
        let (isolation, required) = (self.isolation, self.required.clone());
        let owned = spec.clone();
        let spawned = tokio::task::spawn_blocking(move || {
            let containment = level::containment(isolation);
            for guarantee in required {
                containment
                    .require(guarantee)
                    .map_err(LaunchErrorKind::Containment)?;
            }
            level::spawn(isolation, Command::prepare(&owned)?)
        });
        // Dropped here, the server is started anyway and killed at once, by the
        // drop of what nobody took.
        match spawned.await {
            Ok(Ok(spawned)) => spawned.started().await.map_err(fail),
            Ok(Err(kind)) => Err(fail(kind)),
            Err(lost) => Err(fail(LaunchErrorKind::backend(
                "the runtime is shutting down",
                lost,
            ))),
        }
    }

    async fn reap_orphans(&self) -> Result<ReapReport, ReapError> {
        let reaped = tokio::task::spawn_blocking(orphans::reap).await;
        let reaped = reaped.map_err(|lost| ReapError::new(NAME, lost))?;
        reaped.map_err(|error| ReapError::new(NAME, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_made_alike_are_interchangeable() {
        let plain = LocalLauncher::new().fingerprint();
        assert_eq!(plain, LocalLauncher::new().fingerprint());
        let group = LocalLauncher::new().isolation(Isolation::ProcessGroup);
        assert_ne!(plain, group.fingerprint());
        let strict = LocalLauncher::new().require(Guarantee::AtomicPlacement);
        assert_ne!(plain, strict.fingerprint());
    }
}
