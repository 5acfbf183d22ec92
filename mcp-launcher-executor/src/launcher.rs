//! [`ExecutorLauncher`]: any [`Executor`] as a [`ServerLauncher`].

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use mcp_lifecycle_core::launch::{
    ExitStatus, Gone, LaunchContext, LaunchError, LaunchErrorKind, LaunchedServer,
    ProcessTerminator, ReapError, ReapReport, Remnant, ServerIdentity, ServerLauncher, ServerSpec,
    StepError, TerminationSemantics,
};

use crate::{ExecServerConfig, Executor, ExecutorError, RemoteCommand, RemoteProcess};

const NAME: &str = "executor";

/// Launches servers through an [`Executor`].
///
/// It has no options in a [`ServerSpec`] and refuses any.
///
/// # Drop
///
/// Servers that were launched keep running: each has its own owner, which holds the connection.
#[derive(Debug, Clone)]
pub struct ExecutorLauncher {
    executor: Arc<dyn Executor>,
}

impl ExecutorLauncher {
    /// Creates a launcher for an executor of one's own. Clones share it.
    pub fn new(executor: impl Executor) -> Self {
        let executor = Arc::new(executor);
        Self { executor }
    }

    /// Builds a launcher for an exec-server at this URL: see
    /// [`websocket`](ExecServerConfig::websocket).
    #[cfg(feature = "websocket")]
    pub fn websocket(url: impl Into<String>) -> ExecServerConfig {
        ExecServerConfig::websocket(url)
    }

    /// Builds a launcher for an exec-server on the streams of a command: see
    /// [`command`](ExecServerConfig::command).
    pub fn command<A: Into<OsString>>(
        program: impl Into<OsString>,
        args: impl IntoIterator<Item = A>,
    ) -> ExecServerConfig {
        ExecServerConfig::command(program, args)
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

/// Classifies a launch error by what the caller can do about it.
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

/// Adapts a [`RemoteProcess`] to the ladder.
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
