//! Containment by guardian: the default on Linux.

use std::os::fd::AsFd as _;
use std::sync::Arc;

use async_trait::async_trait;
use mcp_lifecycle_core::launch::{
    ExitStatus, Gone, LaunchErrorKind, LaunchedServer, ProcessTerminator, Remnant, ServerIdentity,
    StepError, TerminationSemantics,
};
use mcp_tree::Guarded;
pub(crate) use mcp_tree::plan::{Plan, Why};

use crate::blocking::blocking;
use crate::command::Command;
use crate::{pipes, sys};

/// A server, which is killed when it is dropped, its tree, and the command that this starts.
pub(crate) type Starting = (LaunchedServer, Arc<Guarded>, Command);

/// Starts a guardian, which starts `command`.
pub(crate) fn spawn(command: Command, plan: Plan) -> Result<Starting, LaunchErrorKind> {
    let (ours, theirs) = pipes::open()?;
    let tree = Guarded::launch(&command, theirs.each_ref().map(|it| it.as_fd()), plan)?;
    let server = Arc::new(GuardedServer(Arc::clone(&tree)));
    Ok((ours.launched(server), tree, command))
}

#[derive(Debug)]
struct GuardedServer(Arc<Guarded>);

#[async_trait]
impl ProcessTerminator for GuardedServer {
    fn identity(&self) -> ServerIdentity {
        self.0.identity()
    }

    fn semantics(&self) -> TerminationSemantics {
        TerminationSemantics::all(self.0.containment().clone())
    }

    async fn exited(&self) -> ExitStatus {
        self.0.ending.exited().await
    }

    async fn request_end(&self) -> Result<(), StepError> {
        let asked = self.0.ask();
        asked.map_err(|error| StepError::new("tell the guardian to send SIGTERM", error))
    }

    async fn force_end(&self) -> Result<(), StepError> {
        let forced = self.0.kill();
        forced.map_err(|error| StepError::new("tell the guardian to send SIGKILL", error))
    }

    async fn gone(&self) -> Result<Gone, StepError> {
        self.0.ending.gone().await
    }

    async fn survivors(&self) -> Result<Vec<Remnant>, StepError> {
        const ACTION: &str = "look for its processes";
        let tree = Arc::clone(&self.0);
        let alive = blocking(move || tree.survivors()).await;
        let alive = alive.map_err(|error| StepError::new(ACTION, error))?;
        alive.map_err(|error| StepError::new(ACTION, error))
    }

    fn kill_now(&self) {
        if let Err(error) = self.0.kill() {
            // Also called while a panic unwinds, where another panic would abort.
            sys::shielded(|| {
                tracing::warn!(server = %self.identity(), %error, "the guardian cannot be told");
            });
        }
    }
}
