//! A server's standard input that its owner can close under the writer's hands.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::launch::launched::BoxWrite;

/// Closing standard input is the first step of every orderly end, and it must
/// not depend on its writer: a task that is stuck in a write, or a
/// writer that somebody forgot. So the writer and the
/// [`ServerHandle`](crate::terminate::ServerHandle) share it, and the handle can take it
/// away. Writes then fail with `BrokenPipe`.
///
/// # Drop
///
/// Dropping it closes the server's standard input.
pub struct ServerStdin {
    shared: Arc<Mutex<Shared>>,
}

/// The owner's end of a [`ServerStdin`].
#[derive(Clone)]
pub(crate) struct StdinCloser {
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    io: Option<BoxWrite>,
    /// The writer that waits for room in the pipe: nothing else would wake it when the
    /// pipe is taken away.
    writer: Option<Waker>,
}

impl ServerStdin {
    pub(crate) fn new(io: BoxWrite) -> (Self, StdinCloser) {
        let shared = Arc::new(Mutex::new(Shared {
            io: Some(io),
            writer: None,
        }));
        let closer = StdinCloser {
            shared: Arc::clone(&shared),
        };
        (Self { shared }, closer)
    }

    fn poll_with(
        &self,
        cx: &mut Context<'_>,
        operation: impl FnOnce(Pin<&mut BoxWrite>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let mut shared = lock(&self.shared);
        let Some(io) = shared.io.as_mut() else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        let poll = operation(Pin::new(io), cx);
        if poll.is_pending() {
            shared.writer = Some(cx.waker().clone());
        }
        poll
    }
}

impl AsyncWrite for ServerStdin {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_with(cx, |io, cx| io.poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_with(cx, |io, cx| io.poll_flush(cx).map_ok(|()| 0))
            .map_ok(drop)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_with(cx, |io, cx| io.poll_shutdown(cx).map_ok(|()| 0))
            .map_ok(drop)
    }
}

impl Drop for ServerStdin {
    fn drop(&mut self) {
        drop(lock(&self.shared).io.take());
    }
}

impl fmt::Debug for ServerStdin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerStdin").finish_non_exhaustive()
    }
}

impl StdinCloser {
    /// Takes standard input away from its writer and closes it.
    ///
    /// Both are needed: a pipe closes when it is dropped and ignores a
    /// shutdown; a socket or an attached container closes one way by a shutdown
    /// and ignores the drop of one half.
    pub(crate) async fn close(&self) {
        let (io, writer) = {
            let mut shared = lock(&self.shared);
            (shared.io.take(), shared.writer.take())
        };
        if let Some(writer) = writer {
            writer.wake();
        }
        if let Some(mut io) = io {
            // A server that has gone already is not an error here.
            let _ = io.shutdown().await;
        }
    }
}

impl fmt::Debug for StdinCloser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdinCloser").finish_non_exhaustive()
    }
}

/// Nothing panics while the lock is held, but a third party's writer might.
fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    #[tokio::test]
    async fn closing_wakes_a_writer_that_waits_for_room() {
        let (host, mut server) = tokio::io::duplex(4);
        let (mut stdin, closer) = ServerStdin::new(Box::new(host));
        let stuck = tokio::spawn(async move { stdin.write_all(&[0; 64]).await });
        tokio::task::yield_now().await;
        closer.close().await;
        let error = stuck.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        let mut rest = Vec::new();
        server.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest.len(), 4);
    }
}
