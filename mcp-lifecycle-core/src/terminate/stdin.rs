//! A server's stdin that its owner can close while it has a writer.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::launch::macros::debug_fields;
use crate::launch::{BoxRead, BoxWrite, LaunchedServer};
use crate::lock::Lock;
use crate::terminate::ServerHandle;

/// A server's stdin, which its [`ServerHandle`](crate::terminate::ServerHandle) can take away from a
/// writer that is stuck or forgotten. Writes then fail with `BrokenPipe`.
///
/// # Drop
///
/// Dropping it closes the server's stdin.
pub struct ServerStdin {
    shared: Arc<Lock<Shared>>,
}

pub(crate) struct StdinCloser(Arc<Lock<Shared>>);

struct Shared {
    io: Option<BoxWrite>,
    /// The writer that waits for room in the pipe; woken when the pipe is taken away.
    writer: Option<Waker>,
}

impl ServerStdin {
    pub(crate) fn new(io: BoxWrite) -> (Self, StdinCloser) {
        let shared = Arc::new(Lock::new(Shared {
            io: Some(io),
            writer: None,
        }));
        let closer = StdinCloser(Arc::clone(&shared));
        (Self { shared }, closer)
    }

    fn poll_with(
        &self,
        cx: &mut Context<'_>,
        operation: impl FnOnce(Pin<&mut BoxWrite>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let mut shared = self.shared.lock();
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
        drop(self.shared.lock().io.take());
    }
}

debug_fields!(ServerStdin, _it {});

impl StdinCloser {
    /// Takes stdin away from its writer and closes it, by a shutdown and a drop: a pipe ignores a
    /// shutdown, and a socket or an attached container ignores the drop of one half.
    pub(crate) async fn close(&self) {
        let (io, writer) = {
            let mut shared = self.0.lock();
            (shared.io.take(), shared.writer.take())
        };
        if let Some(writer) = writer {
            writer.wake();
        }
        if let Some(mut io) = io {
            let _ = io.shutdown().await;
        }
    }
}

debug_fields!(StdinCloser, _it {});

/// The streams of a server that a [`ServerHandle`](crate::terminate::ServerHandle) owns. They keep nothing alive.
#[non_exhaustive]
pub struct ServerStreams {
    /// The server's stdin, which the handle closes when it ends the server.
    pub stdin: ServerStdin,
    /// The server's stdout.
    pub stdout: BoxRead,
    /// The server's stderr, if separate. It must be read: a server blocks after some 64 KiB of
    /// unread stderr.
    pub stderr: Option<BoxRead>,
}

impl ServerStreams {
    /// Returns stdout and stdin, as most service loops want them. Drains and drops stderr.
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime.
    pub fn into_pair(self) -> (BoxRead, ServerStdin) {
        if let Some(mut stderr) = self.stderr {
            tokio::spawn(async move {
                let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
            });
        }
        (self.stdout, self.stdin)
    }
}

debug_fields!(ServerStreams, _it {});

impl LaunchedServer {
    /// Takes over the ownership, for a service loop of your own, MCP or not. `server` is its name in
    /// reports.
    ///
    /// ```no_run
    /// # use mcp_lifecycle_core::{EndReason, LaunchedServer, TerminateError, TerminationPolicy};
    /// # async fn example(launched: LaunchedServer) -> Result<(), TerminateError> {
    /// let (handle, streams) = launched.into_handle("files");
    /// let (stdout, stdin) = streams.into_pair();
    /// // Any protocol over `stdout` and `stdin`: `().serve((stdout, stdin))` with rmcp.
    /// # drop((stdout, stdin));
    /// let proof = handle.terminate(&TerminationPolicy::new(), EndReason::Shutdown).await?;
    /// println!("{proof}");
    /// # Ok(()) }
    /// ```
    pub fn into_handle(self, server: impl Into<String>) -> (ServerHandle, ServerStreams) {
        let parts = self.into_parts();
        let (handle, stdin) = ServerHandle::new(server, parts.stdin, parts.terminator);
        let streams = ServerStreams {
            stdin,
            stdout: parts.stdout,
            stderr: parts.stderr,
        };
        (handle, streams)
    }
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
