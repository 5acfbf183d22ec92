use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, ReadBuf};

use super::{Command, Remote, Streams};
use crate::client::config::ExecServerConfig;
use crate::protocol::process::Stream;

#[derive(Default)]
pub(super) struct Buffer {
    chunks: VecDeque<Bytes>,
    waiting: usize,
    consumed: u64,
    ended: bool,
    failure: Option<io::ErrorKind>,
    abandoned: bool,
    waker: Option<Waker>,
}

/// A process's stdout or stderr. Once it is dropped, later output is discarded, so that the server
/// does not block.
pub(in crate::client) struct Output {
    remote: Arc<Remote>,
    stream: Stream,
}

impl Output {
    pub(super) fn new(remote: Arc<Remote>, stream: Stream) -> Self {
        Self { remote, stream }
    }
}

impl Streams {
    fn buffer(&mut self, stream: Stream) -> &mut Buffer {
        match stream {
            Stream::Stderr => &mut self.stderr,
            Stream::Stdout | Stream::Pty => &mut self.stdout,
        }
    }
}

impl AsyncRead for Output {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut streams = self.remote.streams.lock();
        let buffer = streams.buffer(self.stream);
        let mut taken = 0;
        while out.remaining() > 0
            && let Some(chunk) = buffer.chunks.front_mut()
        {
            let part = chunk.len().min(out.remaining());
            out.put_slice(&chunk[..part]);
            chunk.advance(part);
            taken += part;
            if chunk.is_empty() {
                buffer.chunks.pop_front();
            }
        }
        if taken == 0 && out.remaining() > 0 {
            if let Some(kind) = buffer.failure {
                return Poll::Ready(Err(kind.into()));
            }
            if buffer.ended {
                return Poll::Ready(Ok(()));
            }
            buffer.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        buffer.waiting -= taken;
        buffer.consumed += taken as u64;
        self.remote.tell(&mut streams);
        Poll::Ready(Ok(()))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        let mut streams = self.remote.streams.lock();
        let buffer = streams.buffer(self.stream);
        buffer.abandoned = true;
        buffer.chunks.clear();
        buffer.consumed += std::mem::take(&mut buffer.waiting) as u64;
        self.remote.tell(&mut streams);
    }
}

impl Remote {
    pub(super) fn output(&self, stream: Stream, bytes: Bytes) {
        let mut streams = self.streams.lock();
        let buffer = streams.buffer(stream);
        if buffer.abandoned {
            buffer.consumed += bytes.len() as u64;
            self.tell(&mut streams);
            return;
        }
        buffer.waiting += bytes.len();
        if !bytes.is_empty() {
            buffer.chunks.push_back(bytes);
        }
        let waker = buffer.waker.take();
        let limit = self.window.saturating_mul(ExecServerConfig::PLAIN_SLACK);
        if !streams.lagging && streams.stdout.waiting.max(streams.stderr.waiting) > limit {
            streams.lagging = true;
            self.send(Command::Lag(self.id.clone(), true));
        }
        drop(streams);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(super) fn end_of_output(&self, failure: Option<io::ErrorKind>) {
        let mut streams = self.streams.lock();
        let mut wakers = Vec::new();
        for stream in [Stream::Stdout, Stream::Stderr] {
            let buffer = streams.buffer(stream);
            if !buffer.ended {
                buffer.ended = true;
                buffer.failure = failure;
                wakers.extend(buffer.waker.take());
            }
        }
        drop(streams);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Reports consumed bytes to the peer from time to time, since our daemon sends at most a
    /// window ahead.
    fn tell(&self, streams: &mut Streams) {
        let consumed = (streams.stdout.consumed, streams.stderr.consumed);
        let untold = (consumed.0 - streams.told.0).max(consumed.1 - streams.told.1);
        if untold >= (self.window / 4) as u64 {
            streams.told = consumed;
            self.send(Command::Consumed(self.id.clone(), consumed.0, consumed.1));
        }
        let waiting = streams.stdout.waiting.max(streams.stderr.waiting);
        if streams.lagging && waiting <= self.window {
            streams.lagging = false;
            self.send(Command::Lag(self.id.clone(), false));
        }
    }
}
