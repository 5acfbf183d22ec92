use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project::pin_project;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Counts the bytes read from a stream, and stops reading at a limit.
#[pin_project]
pub struct Counted<S> {
    #[pin]
    stream: S,
    read: u64,
    admitted: Option<usize>,
    after_read: Option<fn(&S)>,
}

impl<S> Counted<S> {
    pub fn new(stream: S) -> Self {
        Self {
            stream,
            read: 0,
            admitted: None,
            after_read: None,
        }
    }

    /// Runs an action on the stream after each read from now on.
    pub fn after_read(&mut self, action: fn(&S)) {
        self.after_read = Some(action);
    }

    pub fn read_so_far(&self) -> u64 {
        self.read
    }

    /// Admits this many more bytes. After that, reads are pending without a wake-up.
    pub fn admit(&mut self, bytes: usize) {
        self.admitted = Some(bytes);
    }

    pub fn is_held(&self) -> bool {
        self.admitted == Some(0)
    }
}

impl<S: AsyncRead> AsyncRead for Counted<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_held() {
            return Poll::Pending;
        }
        let mut this = self.project();
        let most = buffer.remaining().min(this.admitted.unwrap_or(usize::MAX));
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(most));
        ready!(this.stream.as_mut().poll_read(cx, &mut part))?;
        let read = part.filled().len();
        buffer.advance(read);
        *this.read += read as u64;
        if let Some(admitted) = this.admitted {
            *admitted -= read;
        }
        if let Some(after_read) = this.after_read {
            after_read(&this.stream);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite> AsyncWrite for Counted<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.project().stream.poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.project().stream.poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().stream.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().stream.poll_shutdown(cx)
    }
}
