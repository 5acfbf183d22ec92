//! The task that reads an attached stream, from before the container's start until its end. It waits for
//! a slow reader, as a pipe would; once a forced end begins, frames that do not fit are dropped.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bollard::container::{AttachContainerResults, LogOutput};
use bytes::Bytes;
use futures_util::StreamExt;
use mcp_lifecycle_core::backend;
use mcp_lifecycle_core::launch::BoxRead;
use tokio::io::{self, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// Time that the end of output waits for the exit report, which arrives later.
const LATE_EXIT: Duration = Duration::from_secs(2);

/// Capacity of the queue in frames of up to 32 KiB.
const FRAMES: usize = 8;

#[derive(Debug, Clone, Default)]
pub(super) struct Signals {
    /// Cancelled when unread output may be dropped: an unread stream blocks the daemon's stop,
    /// kill, inspect and rm of this container (moby issue 41827).
    pub(super) discard: CancellationToken,
    /// Cancelled to close the attachment, even if it is being read.
    pub(super) detach: CancellationToken,
    /// Cancelled once the container is gone, which the connection to a remote engine may not
    /// report.
    pub(super) over: CancellationToken,
}

/// Splits into stdin, stdout and stderr, and the task that drives them. `exited` completes when the container's exit
/// is known.
pub(super) fn split(
    attached: AttachContainerResults,
    signals: Signals,
    exited: impl Future<Output = ()> + Send + 'static,
) -> (
    HalfClose,
    [BoxRead; 2],
    impl Future<Output = ()> + Send + 'static,
) {
    let AttachContainerResults { input, output } = attached;
    let (out, stdout) = mpsc::channel(FRAMES);
    let (err, stderr) = mpsc::channel(FRAMES);
    let detach = signals.detach.clone();
    let task = async move {
        let until_exit = async {
            drain(output, &out, err, &signals).await;
            let _ = timeout(LATE_EXIT, exited).await;
        };
        tokio::select! {
            () = until_exit => {}
            () = detach.cancelled() => {}
        }
    };
    (
        HalfClose(input),
        [stdout, stderr].map(backend::output),
        task,
    )
}

async fn drain(
    mut output: impl futures_util::Stream<Item = Result<LogOutput, bollard::errors::Error>> + Unpin,
    stdout: &mpsc::Sender<Bytes>,
    stderr: mpsc::Sender<Bytes>,
    signals: &Signals,
) {
    let discard = &signals.discard;
    // A broken connection has no end.
    let silent = || async {
        signals.over.cancelled().await;
        sleep(LATE_EXIT).await;
    };
    loop {
        let frame = tokio::select! {
            frame = output.next() => frame,
            () = silent() => return,
        };
        let Some(frame) = frame else { return };
        match frame {
            Ok(LogOutput::StdOut { message }) => deliver(stdout, message, discard).await,
            Ok(LogOutput::StdErr { message }) => deliver(&stderr, message, discard).await,
            Ok(LogOutput::StdIn { .. }) => {}
            Ok(LogOutput::Console { .. }) => {
                // It would be mistaken for the protocol.
                warn!("the engine sent something that is not an attached stream");
                return;
            }
            Err(_) => return,
        }
    }
}

async fn deliver(to: &mpsc::Sender<Bytes>, frame: Bytes, discard: &CancellationToken) {
    // A dropped reader does not want the data.
    if let Err(mpsc::error::TrySendError::Full(frame)) = to.try_send(frame) {
        tokio::select! {
            biased;
            _ = to.send(frame) => {}
            () = discard.cancelled() => {}
        }
    }
}

/// The container's stdin. Dropping it closes it: bollard's half alone would not, since the drain task
/// holds the other half of the socket.
pub(super) struct HalfClose(Pin<Box<dyn AsyncWrite + Send>>);

impl AsyncWrite for HalfClose {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.as_mut().poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.as_mut().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.as_mut().poll_shutdown(cx)
    }
}

impl Drop for HalfClose {
    fn drop(&mut self) {
        // A socket's shutdown is one system call and never pending.
        let mut cx = Context::from_waker(Waker::noop());
        let _ = self.0.as_mut().poll_shutdown(&mut cx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use tokio::io::AsyncReadExt;
    use tokio::runtime::Builder;

    fn frames(n: usize) -> Vec<Result<LogOutput, bollard::errors::Error>> {
        let frame = |i: usize| LogOutput::StdOut {
            message: Bytes::from(format!("{i}\n")),
        };
        (0..n).map(|i| Ok(frame(i))).collect()
    }

    #[test]
    fn a_reader_that_stopped_holds_back_until_the_end_begins() {
        let runtime = Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (out, stdout) = mpsc::channel(FRAMES);
            let (err, _stderr) = mpsc::channel(FRAMES);
            let signals = Signals::default();
            let discard = signals.discard.clone();
            let output = futures_util::stream::iter(frames(FRAMES * 4));
            let task = tokio::spawn(async move { drain(output, &out, err, &signals).await });
            tokio::task::yield_now().await;
            assert!(!task.is_finished());
            discard.cancel();
            task.await.unwrap();
            let mut text = String::new();
            let mut stdout = backend::output(stdout);
            stdout.read_to_string(&mut text).await.unwrap();
            assert!(text.starts_with("0\n1\n"), "{text}");
            assert_eq!(text.lines().count(), FRAMES);
        });
    }

    #[test]
    fn the_end_of_the_output_follows_the_exit() {
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let attached = AttachContainerResults {
                input: Box::pin(io::sink()),
                output: Box::pin(futures_util::stream::iter(frames(1))),
            };
            let exit = CancellationToken::new();
            let exited = exit.clone().cancelled_owned();
            let (_stdin, outputs, task) = split(attached, Signals::default(), exited);
            let [mut stdout, mut stderr] = outputs;
            let task = tokio::spawn(task);
            let mut text = String::new();
            stderr.read_to_string(&mut text).await.unwrap();
            let mut read = std::pin::pin!(stdout.read_to_string(&mut text));
            assert!(read.as_mut().now_or_never().is_none());
            exit.cancel();
            task.await.unwrap();
            read.await.unwrap();
            assert_eq!(text, "0\n");
        });
    }
}
