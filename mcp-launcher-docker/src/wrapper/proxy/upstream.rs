//! The engine's end of a connection. An engine that refuses a request responds and closes: the rest of
//! the body is dropped, and the response read.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::client::Tunnel;
use crate::dial::Connection;

pub(super) struct Upstream {
    stream: Connection,
    tunnel: Tunnel,
    /// Completes when the engine should see its client as gone, although it may still respond.
    over: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
}

impl Upstream {
    pub(super) fn new(stream: Connection, tunnel: Tunnel, over: CancellationToken) -> Self {
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
            // One system call on a socket; TLS and ssh may have to write before.
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
            // Reading the response ends the request as well.
            Poll::Ready(Err(error)) if is_closed(&error) && !self.tunnel.is_cancelled() => {
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
