//! [`ExecutorLauncher`]: any [`Executor`] as a [`ServerLauncher`].

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use mcp_lifecycle_core::launch::{
    ExitStatus, Gone, LaunchContext, LaunchError, LaunchErrorKind, LaunchedServer,
    ProcessTerminator, ReapError, ReapReport, Remnant, ServerIdentity, ServerLauncher, ServerSpec,
    StepError, TerminationSemantics,
};

use crate::{Executor, ExecutorError, RemoteCommand, RemoteProcess};

const NAME: &str = "executor";

/// Launches servers through an [`Executor`].
///
/// It understands one option in a [`ServerSpec`] and refuses any other:
/// `labels`, an object of strings, which an [`ExecutorSet`](crate::ExecutorSet)
/// places the server by.
///
/// # Drop
///
/// Servers that were launched live on: each has its own owner, which holds the connection.
#[derive(Debug, Clone)]
pub struct ExecutorLauncher {
    executor: Arc<dyn Executor>,
}

impl ExecutorLauncher {
    /// Launches through this executor.
    pub fn new(executor: impl Executor) -> Self {
        Self::from_arc(Arc::new(executor))
    }

    /// Launches through an executor that others use as well.
    pub fn from_arc(executor: Arc<dyn Executor>) -> Self {
        Self { executor }
    }
}

#[async_trait]
impl ServerLauncher for ExecutorLauncher {
    fn name(&self) -> &str {
        NAME
    }

    fn fingerprint(&self) -> Option<String> {
        self.executor.fingerprint()
    }

    fn semantics(&self) -> TerminationSemantics {
        self.executor.semantics()
    }

    async fn launch(
        &self,
        spec: &ServerSpec,
        _: &LaunchContext,
    ) -> Result<LaunchedServer, LaunchError> {
        let failed = |kind| LaunchError::new(NAME, spec, kind);
        let command = RemoteCommand::from_spec(spec)
            .map_err(|error| failed(LaunchErrorKind::InvalidSpec(error)))?;
        let started = self
            .executor
            .start(&command)
            .await
            .map_err(|error| failed(launch_kind(&command, error)))?;
        Ok(LaunchedServer::new(
            started.stdin,
            started.stdout,
            started.stderr,
            Arc::new(RemoteTerminator(started.process)),
        ))
    }

    async fn reap_orphans(&self) -> Result<ReapReport, ReapError> {
        self.executor
            .reap_orphans()
            .await
            .map_err(|error| ReapError::new(NAME, error))
    }
}

/// The kind of a launch error, by what the caller can do about it.
fn launch_kind(command: &RemoteCommand, error: ExecutorError) -> LaunchErrorKind {
    let program = command.argv.first().cloned().unwrap_or_default();
    let path = || PathBuf::from(&program);
    match &error {
        ExecutorError::Refused {
            kind: Some(kind),
            message,
            searched,
            ..
        } => match kind.as_str() {
            "notFound" => LaunchErrorKind::NotFound {
                program,
                searched: searched.clone(),
            },
            "noSuchFile" => LaunchErrorKind::NoSuchFile(path()),
            "notExecutable" => LaunchErrorKind::NotExecutable(path()),
            "isDirectory" => LaunchErrorKind::IsDirectory(path()),
            "workingDirectory" => LaunchErrorKind::WorkingDirectory {
                path: command.cwd.clone().unwrap_or_default().into(),
                cause: std::io::Error::other(message.clone()),
            },
            "limit" => LaunchErrorKind::Limit {
                what: message.clone(),
                cause: None,
            },
            _ => LaunchErrorKind::backend("the executor could not start it", error),
        },
        _ => LaunchErrorKind::backend("the executor could not start it", error),
    }
}

/// A [`RemoteProcess`] as the ladder wants it.
#[derive(Debug)]
struct RemoteTerminator(Arc<dyn RemoteProcess>);

#[async_trait]
impl ProcessTerminator for RemoteTerminator {
    fn identity(&self) -> ServerIdentity {
        self.0.identity()
    }

    fn semantics(&self) -> TerminationSemantics {
        self.0.semantics()
    }

    async fn exited(&self) -> ExitStatus {
        self.0.wait().await
    }

    async fn request_end(&self) -> Result<(), StepError> {
        let step = |error| StepError::new("ask the remote server to end", error);
        self.0.signal().await.map_err(step)
    }

    async fn force_end(&self) -> Result<(), StepError> {
        let step = |error| StepError::new("end the remote server by force", error);
        self.0.terminate().await.map_err(step)
    }

    async fn gone(&self) -> Result<Gone, StepError> {
        let step = |error| StepError::new("prove that the remote server is gone", error);
        self.0.gone().await.map_err(step)
    }

    async fn survivors(&self) -> Result<Vec<Remnant>, StepError> {
        let step = |error| StepError::new("name what is left of the remote server", error);
        self.0.survivors().await.map_err(step)
    }

    fn kill_now(&self) {
        self.0.terminate_now();
    }
}
