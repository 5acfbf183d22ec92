//! The queue to a server: filled synchronously, emptied in batches.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use thiserror::Error;
use tokio::io::AsyncWrite;

use crate::terminate::stdin::ServerStdin;

/// A message could not be queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum SendError {
    /// The connection is closed.
    #[error("the connection to the server is closed")]
    Closed,
    /// The server does not read, and the queue is full.
    #[error("{queued} bytes are queued to a server that does not read (limit {limit})")]
    Full { queued: usize, limit: usize },
}

/// Messages on their way to a server, in order.
///
/// Two locks, so that a message can be queued while the ones before it are being
/// written: `state` is held for moments only, `pipe` during system calls. Where
/// both are needed, `pipe` comes first; only a `try_lock` may turn that around.
#[derive(Debug)]
pub(crate) struct Outbox {
    state: Mutex<State>,
    pipe: Mutex<Pipe>,
    limit: usize,
}

/// The bytes that wait to be written.
#[derive(Debug)]
struct State {
    queue: Vec<u8>,
    /// The size of the pipe's batch when it was taken from the queue; 0
    /// when all of it is written.
    in_pipe: usize,
    accepting: bool,
    writer: Option<Waker>,
}

/// Standard input, and the batch that is being written to it.
#[derive(Debug)]
struct Pipe {
    stdin: Option<ServerStdin>,
    batch: Vec<u8>,
    /// The part of the front of `batch` that is written already, in bytes.
    written: usize,
}

/// Buffers over this size give their memory back once they are empty.
const KEPT_CAPACITY: usize = 4096;

impl Outbox {
    pub(super) fn new(stdin: ServerStdin, limit: usize) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                queue: Vec::new(),
                in_pipe: 0,
                accepting: true,
                writer: None,
            }),
            pipe: Mutex::new(Pipe {
                stdin: Some(stdin),
                batch: Vec::new(),
                written: 0,
            }),
            limit,
        })
    }

    /// Queues one message; `encode` appends it without its newline.
    ///
    /// With `at_once`, tries to write it in the same breath, which saves the
    /// way through the writer task when nothing else is going on.
    pub(super) fn push(
        &self,
        at_once: bool,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), SendError> {
        let mut state = self.lock();
        if !state.accepting {
            return Err(SendError::Closed);
        }
        let waiting = state.queue.len();
        let queued = waiting + state.in_pipe;
        let full = SendError::Full {
            queued,
            limit: self.limit,
        };
        if queued >= self.limit.max(1) {
            return Err(full);
        }
        encode(&mut state.queue);
        state.queue.push(b'\n');
        if queued > 0 && queued + (state.queue.len() - waiting) > self.limit {
            state.queue.truncate(waiting);
            state.queue.shrink_to(waiting.max(KEPT_CAPACITY));
            return Err(full);
        }
        if waiting > 0 {
            // The writer was woken for those before, and takes all there is.
            return Ok(());
        }
        if at_once
            && state.in_pipe == 0
            && let Ok(mut pipe) = self.pipe.try_lock()
        {
            state.hand_over(&mut pipe);
            drop(state);
            self.write_at_once(&mut pipe);
            return Ok(());
        }
        state.wake();
        Ok(())
    }

    /// One attempt; the writer does what is left of it.
    fn write_at_once(&self, pipe: &mut Pipe) {
        let written = pipe.poll_write(&mut Context::from_waker(Waker::noop()));
        let mut state = self.lock();
        match written {
            Poll::Ready(Ok(())) => {
                state.in_pipe = 0;
                if !state.queue.is_empty() {
                    state.wake();
                }
            }
            Poll::Ready(Err(_)) => state.give_up(),
            Poll::Pending => state.wake(),
        }
    }

    /// Refuses further messages; what is queued is still written. A writer with
    /// nothing to write is not woken: that of a server that is being ended has
    /// better things to do.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.accepting = false;
        if !state.queue.is_empty() || state.in_pipe > 0 {
            state.wake();
        }
    }

    /// Returns whether everything that was accepted has been written.
    pub(crate) fn is_empty(&self) -> bool {
        let state = self.lock();
        state.queue.is_empty() && state.in_pipe == 0
    }

    /// Writes whatever is queued, until the outbox is closed and empty or the
    /// server's input is gone. The one task that waits for room in the pipe.
    pub(crate) async fn write_all(self: Arc<Self>) {
        std::future::poll_fn(|cx| self.poll_write_all(cx)).await;
    }

    fn poll_write_all(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.lock().register(cx.waker());
        // Whoever writes at once holds it for one system call that does not
        // block, so waiting for it is no worse than writing.
        let mut pipe = self.pipe.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let written = pipe.poll_write(cx);
            let mut state = self.lock();
            match written {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(_)) => {
                    state.give_up();
                    return Poll::Ready(());
                }
                Poll::Ready(Ok(())) => state.in_pipe = 0,
            }
            if state.queue.is_empty() {
                return match state.accepting {
                    true => Poll::Pending,
                    false => Poll::Ready(()),
                };
            }
            state.hand_over(&mut pipe);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Everything that waits becomes the batch that is written next. The batch
    /// before it is written.
    fn hand_over(&mut self, pipe: &mut Pipe) {
        debug_assert!(pipe.batch.is_empty(), "a batch is lost");
        std::mem::swap(&mut self.queue, &mut pipe.batch);
        self.in_pipe = pipe.batch.len();
    }

    fn register(&mut self, waker: &Waker) {
        match &mut self.writer {
            Some(known) => known.clone_from(waker),
            unknown => *unknown = Some(waker.clone()),
        }
    }

    fn wake(&self) {
        if let Some(writer) = &self.writer {
            writer.wake_by_ref();
        }
    }

    /// Nobody reads what is queued.
    fn give_up(&mut self) {
        self.accepting = false;
        self.queue = Vec::new();
        self.in_pipe = 0;
        self.wake();
    }
}

impl Pipe {
    /// Writes as much as goes. Ready when the batch is written, or on an error,
    /// after which there is no standard input any more.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.batch.len() {
            let Some(stdin) = self.stdin.as_mut() else {
                return self.fail(io::ErrorKind::BrokenPipe.into());
            };
            match Pin::new(stdin).poll_write(cx, &self.batch[self.written..]) {
                Poll::Ready(Ok(0)) => return self.fail(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(n)) => self.written += n,
                Poll::Ready(Err(error)) => return self.fail(error),
                Poll::Pending => return Poll::Pending,
            }
        }
        self.batch.clear();
        self.batch.shrink_to(KEPT_CAPACITY);
        self.written = 0;
        match self.stdin.as_mut() {
            // A pipe has nothing to flush; an attached container may.
            Some(stdin) => Pin::new(stdin).poll_flush(cx),
            None => Poll::Ready(Ok(())),
        }
    }

    fn fail(&mut self, error: io::Error) -> Poll<io::Result<()>> {
        tracing::debug!(%error, "the server's standard input is gone");
        self.stdin = None;
        self.batch = Vec::new();
        self.written = 0;
        Poll::Ready(Err(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    fn outbox(pipe: usize, limit: usize) -> (Arc<Outbox>, tokio::io::DuplexStream) {
        let (host, server) = tokio::io::duplex(pipe);
        let (stdin, _closer) = ServerStdin::new(Box::new(host));
        (Outbox::new(stdin, limit), server)
    }

    fn push(outbox: &Outbox, text: &str) -> Result<(), SendError> {
        outbox.push(false, |queue| queue.extend_from_slice(text.as_bytes()))
    }

    #[tokio::test]
    async fn messages_keep_their_order_and_arrive_after_close() {
        let (outbox, mut server) = outbox(8, 1 << 20);
        let writer = tokio::spawn(Arc::clone(&outbox).write_all());
        let mut expected = String::new();
        for i in 0..100 {
            outbox
                .push(i % 3 == 0, |q| {
                    q.extend_from_slice(format!("{i}").as_bytes())
                })
                .unwrap();
            expected.push_str(&format!("{i}\n"));
        }
        outbox.close();
        assert_eq!(push(&outbox, "late"), Err(SendError::Closed));
        let mut seen = vec![0; expected.len()];
        server.read_exact(&mut seen).await.unwrap();
        assert_eq!(String::from_utf8(seen).unwrap(), expected);
        writer.await.unwrap();
    }

    #[tokio::test]
    async fn a_full_queue_is_an_error_and_not_a_wait() {
        let (outbox, _server) = outbox(1, 10);
        push(&outbox, "0123456789abcdef").unwrap();
        assert!(matches!(
            push(&outbox, "x"),
            Err(SendError::Full { limit: 10, .. })
        ));
    }

    #[tokio::test]
    async fn a_message_over_the_limit_is_taken_only_by_an_empty_queue() {
        let (outbox, _server) = outbox(1, 10);
        push(&outbox, "1").unwrap();
        assert_eq!(
            push(&outbox, "0123456789abcdef"),
            Err(SendError::Full {
                queued: 2,
                limit: 10
            })
        );
        push(&outbox, "1234567").unwrap();
        assert!(push(&outbox, "").is_err(), "the limit itself is reached");
    }

    #[tokio::test]
    async fn the_writer_ends_when_the_server_is_gone() {
        let (outbox, server) = outbox(1, 1 << 20);
        drop(server);
        push(&outbox, "hello").unwrap();
        Arc::clone(&outbox).write_all().await;
        assert_eq!(push(&outbox, "x"), Err(SendError::Closed));
    }
}
