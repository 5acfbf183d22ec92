//! A TCP stream whose received bytes can be acknowledged at once.
//!
//! codex (0.169) leaves Nagle's algorithm on: its second small frame in a row
//! waits until we have acknowledged the first, and Linux delays that by 40 ms,
//! because nothing of ours is due to carry it. So every call took 44 ms.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Whether to acknowledge at once; shared with whoever knows the peer.
#[derive(Debug, Clone)]
pub(super) struct Haste(Arc<AtomicBool>);

impl Haste {
    /// A daemon of ours has no use for it.
    pub(super) fn set(&self, haste: bool) {
        self.0.store(haste, Ordering::Relaxed);
    }
}

/// See the module's documentation.
pub(super) struct Prompt {
    stream: TcpStream,
    haste: Haste,
}

impl Prompt {
    pub(super) fn new(stream: TcpStream) -> (Self, Haste) {
        let haste = Haste(Arc::new(AtomicBool::new(true)));
        let shared = haste.clone();
        (Self { stream, haste }, shared)
    }
}

impl AsyncRead for Prompt {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        // The kernel forgets it again, so it is said after every read. That it
        // fails is no reason to fail.
        #[cfg(target_os = "linux")]
        if self.haste.0.load(Ordering::Relaxed) {
            let _ = self.stream.set_quickack(true);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Prompt {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
