//! The client's end of a connection, which may be half closed.
//!
//! A client that shuts down its writing side still reads the response; a dead one looks the same.
//! The engine responds to a short request and ends a stream. So the end of input is reported with a
//! delay, in which a pending response may arrive.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, Join, ReadBuf, join};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{Sleep, sleep};
use tokio_util::sync::CancellationToken;

const LATE: Duration = Duration::from_secs(5);

pub(super) struct Input {
    stream: OwnedReadHalf,
    late: Option<Pin<Box<Sleep>>>,
    tunnel: Tunnel,
}

/// Cancelled once the connection is no longer HTTP: then an end is forwarded at once.
pub(super) type Tunnel = CancellationToken;

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
        }
        let is_open = self.tunnel.is_cancelled();
        let late = self.late.get_or_insert_with(|| Box::pin(sleep(LATE)));
        match is_open {
            true => Poll::Ready(Ok(())),
            false => late.as_mut().poll(cx).map(Ok),
        }
    }
}
