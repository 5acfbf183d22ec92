//! A launcher that valgrind 3.19 can follow: a child with two pipes and no pidfd.

use std::process::Stdio;
use std::sync::Arc;

use async_trait::async_trait;
use mcp_launcher_local::{Isolation, LocalLauncher};
use mcp_lifecycle_core::launch::{
    Containment, Evidence, ExitStatus, Gone, LaunchContext, LaunchError, LaunchErrorKind,
    LaunchedServer, ProcessTerminator, Reach, ReapError, ReapReport, Remnant, ServerIdentity,
    ServerLauncher, ServerSpec, StepError, TerminationSemantics,
};
use tokio::process::Command;
use tokio::sync::watch;

use super::How;

/// The launcher of the paths on which nothing is launched.
pub(super) fn launcher(how: How) -> Arc<dyn ServerLauncher> {
    match how {
        How::Usual => Arc::new(
            LocalLauncher::builder()
                .isolation(Isolation::ProcessGroup)
                .build(),
        ),
        How::Plain => Arc::new(Plain),
    }
}

#[derive(Debug)]
struct Plain;

#[derive(Debug)]
struct PlainServer {
    pid: u32,
    exit: watch::Receiver<Option<ExitStatus>>,
}

fn semantics() -> TerminationSemantics {
    TerminationSemantics::new(Containment::new("process", Reach::Process)).stdin_eof()
}

#[async_trait]
impl ServerLauncher for Plain {
    fn name(&self) -> &str {
        "plain"
    }

    fn semantics(&self) -> TerminationSemantics {
        semantics()
    }

    async fn launch(
        &self,
        spec: &ServerSpec,
        _: &LaunchContext,
    ) -> Result<LaunchedServer, LaunchError> {
        let fail = |error: std::io::Error| {
            LaunchError::new("plain", spec, LaunchErrorKind::backend("no process", error))
        };
        let mut child = Command::new(spec.program().unwrap_or_default())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(fail)?;
        let pid = child.id().unwrap_or_default();
        let (tell, exit) = watch::channel(None);
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both are piped")
        };
        tokio::spawn(async move {
            let code = child.wait().await.ok().and_then(|status| status.code());
            tell.send(Some(code.map_or(ExitStatus::Unknown, ExitStatus::Code)))
        });
        let server = PlainServer { pid, exit };
        Ok(LaunchedServer::new(stdin, stdout, None, Arc::new(server)))
    }

    async fn reap_orphans(&self) -> Result<ReapReport, ReapError> {
        Ok(ReapReport::new())
    }
}

#[async_trait]
impl ProcessTerminator for PlainServer {
    fn identity(&self) -> ServerIdentity {
        ServerIdentity::process(self.pid, None)
    }

    fn semantics(&self) -> TerminationSemantics {
        semantics()
    }

    async fn exited(&self) -> ExitStatus {
        let mut exit = self.exit.clone();
        let exit = exit.wait_for(Option::is_some).await;
        exit.map_or(None, |exit| *exit)
            .unwrap_or(ExitStatus::Unknown)
    }

    async fn request_end(&self) -> Result<(), StepError> {
        Ok(())
    }

    /// The servers that are counted end with their input.
    async fn force_end(&self) -> Result<(), StepError> {
        Err(StepError::new("kill the server", "it has to end by itself"))
    }

    async fn gone(&self) -> Result<Gone, StepError> {
        self.exited().await;
        Ok(Gone::proven_by(Evidence::Reaped))
    }

    async fn survivors(&self) -> Result<Vec<Remnant>, StepError> {
        let is_alive = self.exit.borrow().is_none();
        let alive = is_alive.then(|| Remnant::process(self.pid, "server"));
        Ok(alive.into_iter().collect())
    }

    fn kill_now(&self) {}
}
