//! The queue to a server: filled synchronously, emptied in batches.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use thiserror::Error;
use tokio::io::AsyncWrite;

use crate::stdin::ServerStdin;

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
#[derive(Debug)]
pub(crate) struct Outbox {
    state: Mutex<State>,
    limit: usize,
}

#[derive(Debug)]
struct State {
    stdin: Option<ServerStdin>,
    queue: Vec<u8>,
    /// How much of the front of `queue` is written already.
    written: usize,
    accepting: bool,
    writer: Option<Waker>,
}

/// Queues over this size give their memory back once they are empty.
const KEPT_CAPACITY: usize = 4096;

impl Outbox {
    pub(super) fn new(stdin: ServerStdin, limit: usize) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                stdin: Some(stdin),
                queue: Vec::new(),
                written: 0,
                accepting: true,
                writer: None,
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
        let queued = state.queue.len() - state.written;
        if queued >= self.limit {
            return Err(SendError::Full {
                queued,
                limit: self.limit,
            });
        }
        encode(&mut state.queue);
        state.queue.push(b'\n');
        let idle = queued == 0;
        if at_once
            && idle
            && state
                .poll_write(&mut Context::from_waker(Waker::noop()))
                .is_ready()
        {
            return Ok(());
        }
        if let Some(writer) = &state.writer {
            writer.wake_by_ref();
        }
        Ok(())
    }

    /// Refuses further messages; what is queued is still written.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.accepting = false;
        if let Some(writer) = &state.writer {
            writer.wake_by_ref();
        }
    }

    /// Whether everything that was accepted has been written.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().queue.is_empty()
    }

    /// Writes whatever is queued, until the outbox is closed and empty or the
    /// server's input is gone. The one task that waits for room in the pipe.
    pub(crate) async fn write_all(self: Arc<Self>) {
        std::future::poll_fn(|cx| {
            let mut state = self.lock();
            if !state
                .writer
                .as_ref()
                .is_some_and(|w| w.will_wake(cx.waker()))
            {
                state.writer = Some(cx.waker().clone());
            }
            match state.poll_write(cx) {
                Poll::Ready(Ok(())) if state.accepting => Poll::Pending,
                Poll::Ready(_) => Poll::Ready(()),
                Poll::Pending => Poll::Pending,
            }
        })
        .await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Writes as much as goes. Ready when the queue is empty, or on an error,
    /// after which nothing is accepted any more.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.queue.len() {
            let Some(stdin) = self.stdin.as_mut() else {
                return self.fail(io::ErrorKind::BrokenPipe.into());
            };
            match Pin::new(stdin).poll_write(cx, &self.queue[self.written..]) {
                Poll::Ready(Ok(0)) => return self.fail(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(n)) => self.written += n,
                Poll::Ready(Err(error)) => return self.fail(error),
                Poll::Pending => return Poll::Pending,
            }
        }
        self.queue.clear();
        self.queue.shrink_to(KEPT_CAPACITY);
        self.written = 0;
        match self.stdin.as_mut() {
            // A pipe has nothing to flush; an attached container may.
            Some(stdin) => Pin::new(stdin).poll_flush(cx),
            None => Poll::Ready(Ok(())),
        }
    }

    fn fail(&mut self, error: io::Error) -> Poll<io::Result<()>> {
        tracing::debug!(%error, "the server's standard input is gone");
        self.accepting = false;
        self.stdin = None;
        self.queue = Vec::new();
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
    async fn the_writer_ends_when_the_server_is_gone() {
        let (outbox, server) = outbox(1, 1 << 20);
        drop(server);
        push(&outbox, "hello").unwrap();
        Arc::clone(&outbox).write_all().await;
        assert_eq!(push(&outbox, "x"), Err(SendError::Closed));
    }
}
