use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use tokio::io::AsyncWrite;

use super::{Command, Remote};
use crate::protocol::Chunk;
use crate::protocol::process::WriteParams;

const QUEUE: usize = 256 * 1024;

/// The largest write: with its frame it fits into our daemon's guaranteed buffer.
const MOST: usize = 64 * 1024;

/// Writes in flight at our daemon, which keeps their order. Its backlog is at least this large.
pub(in crate::client) const DEPTH: u32 = 4;

/// A process's stdin.
///
/// A write completes when its bytes are queued here; they reach the peer in order, once, even over
/// a resumed connection. Shutting it down closes it there after the queued bytes, without waiting.
/// Dropping it does the same.
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

    /// Never waits. Fails once the peer cannot write any more, and wakes its caller then.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut streams = self.remote.streams.lock();
        let writing = &mut streams.writing;
        if let Some(kind) = writing.broken {
            return Poll::Ready(Err(kind.into()));
        }
        let known = writing.flushed.get_or_insert_with(|| cx.waker().clone());
        known.clone_from(cx.waker());
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
    fn begin_writes(&self) {
        while self.begin_write() {}
    }

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

    /// Closes it after the writes in flight. Only our daemon is told, which keeps the order.
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
        let flushed = streams.writing.flushed.take();
        drop(streams);
        waker.into_iter().chain(flushed).for_each(Waker::wake);
    }
}
