//! [`Output`]: messages of an engine as a byte stream.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc;

/// A byte stream of messages, which ends when the sender is dropped.
#[derive(Debug)]
pub struct Output {
    messages: mpsc::Receiver<Bytes>,
    current: Bytes,
}

impl Output {
    /// Returns the stream of these messages.
    #[must_use]
    pub fn new(messages: mpsc::Receiver<Bytes>) -> Self {
        let current = Bytes::new();
        Self { messages, current }
    }

    /// Returns a stream that has ended.
    #[must_use]
    pub fn ended() -> Self {
        Self::new(mpsc::channel(1).1)
    }
}

impl AsyncRead for Output {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.current.is_empty() {
            match ready!(self.messages.poll_recv(cx)) {
                Some(data) => self.current = data,
                None => return Poll::Ready(Ok(())),
            }
        }
        let n = buf.remaining().min(self.current.len());
        buf.put_slice(&self.current[..n]);
        self.current.advance(n);
        Poll::Ready(Ok(()))
    }
}
