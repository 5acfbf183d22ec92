use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::SinkExt;
use futures_util::stream::SplitSink;
use tokio::io::{self, AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_util::sync::{CancellationToken, PollSender};
use tracing::debug;

use super::STDIN;

/// Channel to close the stream with the number that follows, from protocol version 5 on.
const CLOSE: u8 = 255;

const CHUNK: usize = 32 * 1024;

/// The server's stdin. Dropping it closes stdin.
pub(in crate::pod) struct Input(pub(super) PollSender<Bytes>);

impl AsyncWrite for Input {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let closed = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        ready!(self.0.poll_reserve(cx)).map_err(closed)?;
        let n = buf.len().min(CHUNK);
        let data = Bytes::copy_from_slice(&buf[..n]);
        self.0.send_item(data).map_err(closed)?;
        Poll::Ready(Ok(n))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.close();
        Poll::Ready(Ok(()))
    }
}

/// Feeds stdin until it is closed or the session has ended. Returns whether it was closed.
pub(super) async fn write<S: AsyncRead + AsyncWrite + Unpin>(
    mut sink: SplitSink<WebSocketStream<S>, Message>,
    mut fed: mpsc::Receiver<Bytes>,
    half_close: bool,
    keep_alive: Duration,
    ended: &CancellationToken,
) -> bool {
    // Runs also while there is input, which may cause no traffic back.
    let mut alive = interval_at(Instant::now() + keep_alive, keep_alive);
    alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let data = tokio::select! {
            data = fed.recv() => Some(data),
            _ = alive.tick() => None,
            () = ended.cancelled() => return false,
        };
        let message = match &data {
            Some(Some(data)) => input(data),
            // The API server and kubelets count only data as activity, so send an empty message to
            // stdin.
            None => input(&[]),
            Some(None) if half_close => Message::binary(vec![CLOSE, STDIN]),
            Some(None) => Message::Close(None),
        };
        let sending = async {
            sink.send(message).await?;
            if data.is_none() {
                // Some proxies count only the traffic back: the pong.
                sink.send(Message::Ping(Bytes::new())).await?;
            }
            Ok::<(), tokio_tungstenite::tungstenite::Error>(())
        };
        let sent = tokio::select! {
            sent = sending => sent,
            () = ended.cancelled() => return false,
        };
        if let Err(error) = sent {
            debug!(%error, "standard input was not taken");
            return false;
        }
        if let Some(None) = data {
            break;
        }
    }
    if !half_close {
        ended.cancel();
    }
    true
}

fn input(data: &[u8]) -> Message {
    let mut message = BytesMut::with_capacity(data.len() + 1);
    message.put_u8(STDIN);
    message.put_slice(data);
    Message::Binary(message.freeze())
}
