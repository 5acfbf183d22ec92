use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use mcp_lifecycle_core::launch::{
    LaunchContext, LaunchError, LaunchErrorKind, LaunchedServer, ReapError, ReapReport,
    ServerLauncher, ServerSpec, TerminationSemantics,
};

use crate::{ExecServerConfig, Executor, ExecutorError, RemoteCommand};

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
        let started = self.executor.start(&command).await;
        started.map_err(|error| failed(launch_kind(&command, error)))
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
