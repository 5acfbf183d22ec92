//! Standard input: bytes become writes, one under way at a time.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;

use super::{Command, Remote};
use crate::protocol::Chunk;
use crate::protocol::process::WriteParams;

/// Bytes that may wait for the write under way.
const QUEUE: usize = 256 * 1024;

/// A process's standard input.
///
/// A write is done when the bytes are queued here; they reach the peer in
/// order, once, also over a resumed connection. Shutting it down closes it there
/// behind what is queued, and does not wait.
///
/// # Drop
///
/// Shuts it down.
pub(in crate::client) struct Input {
    remote: Arc<Remote>,
}

impl Input {
    pub(super) fn new(remote: Arc<Remote>) -> Self {
        Self { remote }
    }
}

impl AsyncWrite for Input {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut streams = self.remote.streams();
        let writing = &mut streams.writing;
        if let Some(kind) = writing.broken {
            return Poll::Ready(Err(kind.into()));
        }
        if writing.closing {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let room = QUEUE.saturating_sub(writing.queued.len());
        if room == 0 {
            writing.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let taken = bytes.len().min(room);
        writing.queued.extend_from_slice(&bytes[..taken]);
        drop(streams);
        self.remote.begin_write();
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.remote.close_input();
        Poll::Ready(Ok(()))
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        self.remote.close_input();
    }
}

impl Remote {
    /// Sends what is queued, unless a write is under way.
    fn begin_write(&self) {
        let mut streams = self.streams();
        let writing = &mut streams.writing;
        if writing.under_way || writing.broken.is_some() || writing.queued.is_empty() {
            return;
        }
        writing.under_way = true;
        writing.count += 1;
        let params = WriteParams {
            process_id: self.id.clone(),
            chunk: Chunk(std::mem::take(&mut writing.queued).into()),
            write_id: Some(format!("w{}", writing.count)),
        };
        self.send(Command::Write(params));
        let waker = writing.waker.take();
        drop(streams);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The write under way was accepted.
    pub(super) fn next_write(&self) {
        let mut streams = self.streams();
        streams.writing.under_way = false;
        if streams.writing.closing && streams.writing.queued.is_empty() {
            self.send(Command::CloseStdin(self.id.clone()));
        }
        drop(streams);
        self.begin_write();
    }

    fn close_input(&self) {
        let mut streams = self.streams();
        let writing = &mut streams.writing;
        if std::mem::replace(&mut writing.closing, true) || writing.broken.is_some() {
            return;
        }
        if !writing.under_way && writing.queued.is_empty() {
            self.send(Command::CloseStdin(self.id.clone()));
        }
    }

    pub(super) fn break_input(&self, kind: io::ErrorKind) {
        let mut streams = self.streams();
        streams.writing.broken.get_or_insert(kind);
        streams.writing.queued = Vec::new();
        let waker = streams.writing.waker.take();
        drop(streams);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
