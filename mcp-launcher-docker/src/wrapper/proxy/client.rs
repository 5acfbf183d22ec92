//! The client's end of a connection, which may be half closed.
//!
//! A client that shuts down its writing side after a request still reads the
//! answer, and one that has died looks the same. The engine gives both the
//! answer to a short request and ends a stream. So the end of input is told
//! some time after it came: what is under way has that long to be answered.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, Join, ReadBuf, join};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{Sleep, sleep};

/// How long a request may be answered after its client has closed its side.
const LATE: Duration = Duration::from_secs(5);

pub(super) struct Input {
    stream: OwnedReadHalf,
    /// Runs from the end of input.
    late: Option<Pin<Box<Sleep>>>,
    tunnel: Tunnel,
}

/// Whether the connection is no longer HTTP: then an end is passed on at once.
#[derive(Debug, Clone, Default)]
pub(super) struct Tunnel(Arc<AtomicBool>);

impl Tunnel {
    pub(super) fn open(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(super) fn is_open(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The connection of a client, as the proxy reads and writes it.
pub(super) fn of(stream: UnixStream, tunnel: Tunnel) -> Join<Input, OwnedWriteHalf> {
    let (stream, output) = stream.into_split();
    let late = None;
    let input = Input {
        stream,
        late,
        tunnel,
    };
    join(input, output)
}

impl AsyncRead for Input {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.late.is_none() {
            let before = buf.filled().len();
            let read = Pin::new(&mut self.stream).poll_read(cx, buf)?;
            if read.is_pending() || buf.filled().len() > before || buf.remaining() == 0 {
                return read.map(Ok);
            }
            self.late = Some(Box::pin(sleep(LATE)));
        }
        if self.tunnel.is_open() {
            return Poll::Ready(Ok(()));
        }
        match &mut self.late {
            Some(late) => late.as_mut().poll(cx).map(Ok),
            None => Poll::Ready(Ok(())),
        }
    }
}
