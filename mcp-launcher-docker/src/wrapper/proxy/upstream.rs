//! The engine's end of a connection, which may close before it has read all.
//!
//! An engine that refuses a request answers and closes; the rest of the body is
//! then nobody's, and the answer is still there to be read.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::client::Tunnel;

pub(super) struct Upstream {
    stream: UnixStream,
    tunnel: Tunnel,
    /// Completes when the engine is to take its client for gone, and yet can answer.
    over: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
}

impl Upstream {
    pub(super) fn new(stream: UnixStream, tunnel: Tunnel, over: CancellationToken) -> Self {
        Self {
            stream,
            tunnel,
            over: Some(Box::pin(over.cancelled_owned())),
        }
    }
}

impl AsyncRead for Upstream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(over) = &mut self.over
            && over.as_mut().poll(cx).is_ready()
        {
            self.over = None;
            // A socket's shutdown is one system call and never pending.
            let _ = Pin::new(&mut self.stream).poll_shutdown(cx);
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Upstream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.stream).poll_write(cx, buf) {
            // What reads the answer ends the request as well.
            Poll::Ready(Err(error)) if is_closed(&error) && !self.tunnel.is_open() => {
                Poll::Ready(Ok(buf.len()))
            }
            written => written,
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionReset)
}
