//! Standard input: bytes become writes, a few of them under way at a time.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::BytesMut;
use tokio::io::AsyncWrite;

use super::{Command, Remote};
use crate::protocol::Chunk;
use crate::protocol::process::WriteParams;

/// Bytes that may wait for the writes under way.
const QUEUE: usize = 256 * 1024;

/// The largest write: with its frame it fits into what a daemon of ours leaves to
/// everybody.
const MOST: usize = 64 * 1024;

/// Writes under way at a daemon of ours, which carries them out in order. It
/// holds back at least as much as these come to.
pub(in crate::client) const DEPTH: u32 = 4;

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
        let mut streams = self.remote.streams.lock();
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
        self.remote.begin_writes();
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
    /// Sends what is queued, unless enough is under way.
    fn begin_writes(&self) {
        while self.begin_write() {}
    }

    /// Whether a write was begun, so that there may be another.
    fn begin_write(&self) -> bool {
        let mut streams = self.streams.lock();
        let writing = &mut streams.writing;
        let full = writing.under_way >= self.depth;
        if full || writing.broken.is_some() || writing.queued.is_empty() {
            return false;
        }
        writing.under_way += 1;
        writing.count += 1;
        let most = writing.queued.len().min(MOST);
        let params = WriteParams {
            process_id: self.id.clone(),
            chunk: Chunk(writing.queued.split_to(most).freeze()),
            write_id: Some(format!("w{}", writing.count)),
        };
        self.send(Command::Write(params));
        let waker = writing.waker.take();
        drop(streams);
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }

    /// The first write under way was accepted.
    pub(super) fn next_write(&self) {
        let mut streams = self.streams.lock();
        let writing = &mut streams.writing;
        writing.under_way = writing.under_way.saturating_sub(1);
        let empty_already = writing.queued.is_empty();
        drop(streams);
        if !empty_already {
            self.begin_writes();
            self.close_when_empty();
        }
    }

    fn close_input(&self) {
        if std::mem::replace(&mut self.streams.lock().writing.closing, true) {
            return;
        }
        self.close_when_empty();
    }

    /// Closes it behind the writes under way: only a daemon of ours is told,
    /// and that keeps the order.
    fn close_when_empty(&self) {
        let streams = self.streams.lock();
        let writing = &streams.writing;
        if writing.closing && writing.queued.is_empty() && writing.broken.is_none() {
            self.send(Command::CloseStdin(self.id.clone()));
        }
    }

    pub(super) fn break_input(&self, kind: io::ErrorKind) {
        let mut streams = self.streams.lock();
        streams.writing.broken.get_or_insert(kind);
        streams.writing.queued = BytesMut::new();
        let waker = streams.writing.waker.take();
        drop(streams);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
