//! A launcher whose primitives are late, fail or never answer.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use mcp_lifecycle_core::launch::{
    BoxRead, BoxWrite, ExitStatus, Gone, LaunchContext, LaunchError, LaunchedParts, LaunchedServer,
    ProcessTerminator, ReapError, ReapReport, Remnant, ServerIdentity, ServerLauncher, ServerSpec,
    StepError, TerminationSemantics,
};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::sleep;

use crate::fake::Fake;

/// How one primitive behaves.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mood {
    Prompt,
    /// After so many milliseconds.
    Late(u64),
    Fails(u64),
    Hangs,
}

impl Mood {
    async fn act<T>(self, act: impl Future<Output = Result<T, StepError>>) -> Result<T, StepError> {
        match self {
            Self::Prompt => act.await,
            Self::Late(ms) => {
                sleep(Duration::from_millis(ms)).await;
                act.await
            }
            Self::Fails(ms) => {
                sleep(Duration::from_millis(ms)).await;
                Err(StepError::new("do it", io::Error::other("moody")))
            }
            Self::Hangs => std::future::pending().await,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Moods {
    pub(crate) close: Mood,
    pub(crate) ask: Mood,
    pub(crate) force: Mood,
    pub(crate) gone: Mood,
    pub(crate) survivors: Mood,
    /// How many milliseconds the exit status comes after the exit.
    pub(crate) late_exit: u64,
    /// Whether the server says something just after its exit, on standard error.
    pub(crate) last_words: bool,
    /// Whether the synchronous kill panics.
    pub(crate) kill_panics: bool,
    /// Whether the launch waits for ever, and panics when it is dropped.
    pub(crate) drop_panics: bool,
    /// Whether the synchronous kill does nothing.
    pub(crate) deaf: bool,
}

impl Default for Moods {
    fn default() -> Self {
        Self {
            close: Mood::Prompt,
            ask: Mood::Prompt,
            force: Mood::Prompt,
            gone: Mood::Prompt,
            survivors: Mood::Prompt,
            late_exit: 0,
            last_words: false,
            kill_panics: false,
            drop_panics: false,
            deaf: false,
        }
    }
}

/// Launches fake servers whose ends go by the moods of the moment.
#[derive(Debug)]
pub(crate) struct Moody {
    fake: Arc<Fake>,
    moods: Arc<Mutex<Moods>>,
}

impl Moody {
    pub(crate) fn new(fake: &Arc<Fake>, moods: Moods) -> Arc<Self> {
        Arc::new(Self {
            fake: Arc::clone(fake),
            moods: Arc::new(Mutex::new(moods)),
        })
    }

    pub(crate) fn set(&self, moods: Moods) {
        *self.moods.lock().unwrap() = moods;
    }
}

struct DropPanics;

impl Drop for DropPanics {
    fn drop(&mut self) {
        panic!("a fault in a dropped launch");
    }
}

#[async_trait]
impl ServerLauncher for Moody {
    fn name(&self) -> &str {
        "moody"
    }
    fn semantics(&self) -> TerminationSemantics {
        self.fake.semantics()
    }
    async fn launch(
        &self,
        spec: &ServerSpec,
        context: &LaunchContext,
    ) -> Result<LaunchedServer, LaunchError> {
        let moods = *self.moods.lock().unwrap();
        if moods.drop_panics {
            let _fault = DropPanics;
            std::future::pending::<()>().await;
        }
        let LaunchedParts {
            stdin,
            stdout,
            stderr,
            terminator,
            ..
        } = self.fake.launch(spec, context).await?.into_parts();
        let stdin = Stdin {
            io: stdin,
            close: moods.close,
            late: None,
        };
        let stderr = match moods.last_words {
            true => Some(last_words(Arc::clone(&terminator))),
            false => stderr,
        };
        let moods = Arc::clone(&self.moods);
        let terminator = Arc::new(Terminator { terminator, moods });
        Ok(LaunchedServer::new(stdin, stdout, stderr, terminator))
    }
    async fn reap_orphans(&self) -> Result<ReapReport, ReapError> {
        self.fake.reap_orphans().await
    }
}

/// Output of a server that comes 20 ms after its exit: it was in the pipe.
fn last_words(terminator: Arc<dyn ProcessTerminator>) -> BoxRead {
    let (ours, mut theirs) = tokio::io::duplex(64);
    tokio::spawn(async move {
        terminator.exited().await;
        sleep(Duration::from_millis(20)).await;
        let _ = theirs.write_all(b"last words\n").await;
    });
    Box::new(ours)
}

struct Stdin {
    io: BoxWrite,
    close: Mood,
    late: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl AsyncWrite for Stdin {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let wait = match self.close {
            Mood::Hangs => return Poll::Pending,
            Mood::Prompt => 0,
            Mood::Late(ms) | Mood::Fails(ms) => ms,
        };
        let late = self
            .late
            .get_or_insert_with(|| Box::pin(sleep(Duration::from_millis(wait))));
        std::task::ready!(late.as_mut().poll(cx));
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[derive(Debug)]
struct Terminator {
    terminator: Arc<dyn ProcessTerminator>,
    moods: Arc<Mutex<Moods>>,
}

impl Terminator {
    fn moods(&self) -> Moods {
        *self.moods.lock().unwrap()
    }
}

#[async_trait]
impl ProcessTerminator for Terminator {
    fn identity(&self) -> ServerIdentity {
        self.terminator.identity()
    }
    fn semantics(&self) -> TerminationSemantics {
        self.terminator.semantics()
    }
    async fn exited(&self) -> ExitStatus {
        let exit = self.terminator.exited().await;
        sleep(Duration::from_millis(self.moods().late_exit)).await;
        exit
    }
    async fn request_end(&self) -> Result<(), StepError> {
        self.moods().ask.act(self.terminator.request_end()).await
    }
    async fn force_end(&self) -> Result<(), StepError> {
        self.moods().force.act(self.terminator.force_end()).await
    }
    async fn gone(&self) -> Result<Gone, StepError> {
        self.moods().gone.act(self.terminator.gone()).await
    }
    async fn survivors(&self) -> Result<Vec<Remnant>, StepError> {
        self.moods()
            .survivors
            .act(self.terminator.survivors())
            .await
    }
    fn kill_now(&self) {
        assert!(!self.moods().kill_panics, "a fault in the last resort");
        if !self.moods().deaf {
            self.terminator.kill_now();
        }
    }
}
