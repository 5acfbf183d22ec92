use std::io;
use std::pin::Pin;
use std::sync::{Arc, MutexGuard};
use std::task::{Context, Poll, Waker};

use crate::lock::Lock;
use crate::terminate::ServerStdin;
use thiserror::Error;
use tokio::io::AsyncWrite;
use tokio_util::sync::CancellationToken;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum SendError {
    #[error("the connection to the server is closed")]
    Closed,
    #[error("{queued} bytes are queued to a server that does not read (limit {limit})")]
    Full { queued: usize, limit: usize },
}

/// The queue of messages to a server, in order.
///
/// Two locks, so that messages can be queued during a write: `state` is held briefly, `pipe` during
/// system calls. `pipe` is locked first; only a `try_lock` may reverse that.
#[derive(Debug)]
pub(crate) struct Outbox {
    state: Lock<State>,
    pipe: Lock<Pipe>,
    limit: usize,
    broken: CancellationToken,
}

#[derive(Debug)]
struct State {
    queue: Vec<u8>,
    /// Size of the batch that the pipe took from the queue; 0 once it is written.
    in_pipe: usize,
    accepting: bool,
    writer: Option<Waker>,
}

#[derive(Debug)]
struct Pipe {
    stdin: Option<ServerStdin>,
    batch: Vec<u8>,
    written: usize,
}

const KEPT_CAPACITY: usize = 4096;

impl Outbox {
    pub(super) fn new(stdin: ServerStdin, limit: usize, broken: CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            state: Lock::new(State {
                queue: Vec::new(),
                in_pipe: 0,
                accepting: true,
                writer: None,
            }),
            pipe: Lock::new(Pipe {
                stdin: Some(stdin),
                batch: Vec::new(),
                written: 0,
            }),
            limit,
            broken,
        })
    }

    /// Queues one message; `encode` appends it without its newline. With `at_once`, tries to write it
    /// here, which saves the detour through the writer task.
    pub(super) fn push(
        &self,
        at_once: bool,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), SendError> {
        let mut state = self.state.lock();
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
            // The writer is already awake and takes everything.
            return Ok(());
        }
        if at_once
            && state.in_pipe == 0
            && let Some(mut pipe) = self.pipe.try_lock()
        {
            state.hand_over(&mut pipe);
            let writer = state.writer.clone();
            drop(state);
            self.write_at_once(&mut pipe, writer.as_ref());
            return Ok(());
        }
        state.wake();
        Ok(())
    }

    /// Tries to write once; the writer task does the rest, and is woken if the input breaks later.
    fn write_at_once(&self, pipe: &mut Pipe, writer: Option<&Waker>) {
        let writer = writer.unwrap_or(Waker::noop());
        let written = pipe.poll_write(&mut Context::from_waker(writer));
        let mut state = self.state.lock();
        match written {
            Poll::Ready(Ok(())) => {
                state.in_pipe = 0;
                if !state.queue.is_empty() {
                    state.wake();
                }
            }
            Poll::Ready(Err(_)) => self.give_up(state),
            Poll::Pending => state.wake(),
        }
    }

    /// Refuses further messages; queued ones are still written. An idle writer is not woken.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.accepting = false;
        if !state.queue.is_empty() || state.in_pipe > 0 {
            state.wake();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        let state = self.state.lock();
        state.queue.is_empty() && state.in_pipe == 0
    }

    pub(crate) async fn write_all(self: Arc<Self>) {
        std::future::poll_fn(|cx| self.poll_write_all(cx)).await;
    }

    fn poll_write_all(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.state.lock().register(cx.waker());
        // Another holder makes one non-blocking system call, so this wait is short.
        let mut pipe = self.pipe.lock();
        loop {
            let written = pipe.poll_write(cx);
            let mut state = self.state.lock();
            match written {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(_)) => {
                    self.give_up(state);
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

    fn give_up(&self, mut state: MutexGuard<'_, State>) {
        state.accepting = false;
        state.queue = Vec::new();
        state.in_pipe = 0;
        state.wake();
        drop(state);
        self.broken.cancel();
    }
}

impl State {
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
}

impl Pipe {
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
        let broken = CancellationToken::new();
        (Outbox::new(stdin, limit, broken), server)
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
        assert!(outbox.broken.is_cancelled());
    }
}
