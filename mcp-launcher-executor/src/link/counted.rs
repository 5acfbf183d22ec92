//! A stream that counts what arrives, and how much may.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project::pin_project;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream that counts the bytes that were read from it, and stops when as many
/// have been as its owner admits.
#[pin_project]
pub(crate) struct Counted<S> {
    #[pin]
    stream: S,
    read: u64,
    /// Set where there is a bound.
    admitted: Option<usize>,
    after_read: Option<AfterRead<S>>,
}

type AfterRead<S> = Box<dyn Fn(&S) + Send>;

impl<S> Counted<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self {
            stream,
            read: 0,
            admitted: None,
            after_read: None,
        }
    }

    /// Does this with the stream after each read.
    pub(crate) fn after_read(mut self, action: impl Fn(&S) + Send + 'static) -> Self {
        self.after_read = Some(Box::new(action));
        self
    }

    /// Bytes read so far.
    pub(crate) fn read_so_far(&self) -> u64 {
        self.read
    }

    /// So many bytes more may be read. Then reads are pending, and nobody is woken.
    pub(crate) fn admit(&mut self, bytes: usize) {
        self.admitted = Some(bytes);
    }

    /// Whether all that was admitted has been read.
    pub(crate) fn is_held(&self) -> bool {
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
