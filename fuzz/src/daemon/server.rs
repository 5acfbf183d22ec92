//! Servers without processes: their streams are in memory, and they end when
//! they are told.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use mcp_lifecycle_core::launch::{
    Containment, Evidence, ExitStatus, Gone, LaunchContext, LaunchError, LaunchedServer,
    ProcessTerminator, Reach, ReapError, ReapReport, Remnant, ServerIdentity, ServerLauncher,
    ServerSpec, StepError, TerminationSemantics,
};
use mcp_lifecycle_core::lock::Lock;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio_util::sync::CancellationToken;

/// As much output waits in the pipe of a server.
const PIPE: usize = 4096;

/// Launches servers in memory, each under the name of its process.
#[derive(Debug, Default)]
pub(super) struct InMemory {
    servers: Lock<HashMap<String, Server>>,
}

/// A server, as its author sees it.
#[derive(Debug)]
struct Server {
    life: Arc<Life>,
    /// Bytes of output so far.
    said: u64,
    /// How often there has been one of this name.
    launches: u32,
}

/// The ends of a server's pipes, until it ends.
#[derive(Debug)]
struct Life {
    /// Its input, and its output.
    pipes: Lock<Option<(DuplexStream, DuplexStream)>>,
    ended: CancellationToken,
}

impl Life {
    fn end(&self) {
        self.pipes.lock().take();
        self.ended.cancel();
    }
}

impl InMemory {
    /// Whether there was one server of this name, and not another one later.
    pub(super) fn is_single(&self, name: &str) -> bool {
        self.servers
            .lock()
            .get(name)
            .is_some_and(|s| s.launches == 1)
    }

    /// How many have not ended.
    pub(super) fn alive(&self) -> usize {
        let servers = self.servers.lock();
        let alive = servers.values().filter(|s| !s.life.ended.is_cancelled());
        alive.count()
    }

    /// Writes up to `length` bytes of output, which count from 0.
    pub(super) fn say(&self, name: &str, length: usize) {
        if let Some(server) = self.servers.lock().get_mut(name)
            && let Some((_, output)) = &mut *server.life.pipes.lock()
        {
            let said = server.said;
            let bytes: Vec<u8> = (0..length as u64).map(|n| (said + n) as u8).collect();
            if let Some(Ok(written)) = output.write(&bytes).now_or_never() {
                server.said += written as u64;
            }
        }
    }

    /// Takes what there is of its input, and ends at the end of it.
    pub(super) fn hear(&self, name: &str) {
        if let Some(server) = self.servers.lock().get(name) {
            let read = match &mut *server.life.pipes.lock() {
                Some((input, _)) => input.read(&mut [0; PIPE]).now_or_never(),
                None => None,
            };
            if let Some(Ok(0)) = read {
                server.life.end();
            }
        }
    }

    /// Ends by itself.
    pub(super) fn exit(&self, name: &str) {
        if let Some(server) = self.servers.lock().get(name) {
            server.life.end();
        }
    }
}

#[async_trait]
impl ServerLauncher for InMemory {
    fn name(&self) -> &str {
        "in memory"
    }

    fn semantics(&self) -> TerminationSemantics {
        TerminationSemantics::new(Containment::new("in memory", Reach::Tree))
    }

    async fn launch(
        &self,
        spec: &ServerSpec,
        _: &LaunchContext,
    ) -> Result<LaunchedServer, LaunchError> {
        // A launch takes a while, in which it may be cancelled.
        tokio::task::yield_now().await;
        let (stdin, input) = tokio::io::duplex(PIPE);
        let (output, stdout) = tokio::io::duplex(PIPE);
        let life = Arc::new(Life {
            pipes: Lock::new(Some((input, output))),
            ended: CancellationToken::new(),
        });
        let mut servers = self.servers.lock();
        let earlier = servers.get(spec.name()).map_or(0, |s| s.launches);
        let server = Server {
            life: Arc::clone(&life),
            said: 0,
            launches: earlier + 1,
        };
        servers.insert(spec.name().to_owned(), server);
        Ok(LaunchedServer::new(stdin, stdout, None, life))
    }

    async fn reap_orphans(&self) -> Result<ReapReport, ReapError> {
        Ok(ReapReport::new())
    }
}

#[async_trait]
impl ProcessTerminator for Life {
    fn identity(&self) -> ServerIdentity {
        ServerIdentity::Other("in memory".to_owned())
    }

    fn semantics(&self) -> TerminationSemantics {
        TerminationSemantics::new(Containment::new("in memory", Reach::Tree))
    }

    async fn exited(&self) -> ExitStatus {
        self.ended.cancelled().await;
        ExitStatus::Code(0)
    }

    async fn request_end(&self) -> Result<(), StepError> {
        self.end();
        Ok(())
    }

    async fn force_end(&self) -> Result<(), StepError> {
        self.end();
        Ok(())
    }

    async fn gone(&self) -> Result<Gone, StepError> {
        self.ended.cancelled().await;
        Ok(Gone::proven_by(Evidence::Other("in memory".into())))
    }

    async fn survivors(&self) -> Result<Vec<Remnant>, StepError> {
        Ok(Vec::new())
    }

    fn kill_now(&self) {
        self.end();
    }
}
