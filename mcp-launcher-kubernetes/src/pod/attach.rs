//! The streams of a pod: one WebSocket and the two tasks that own it. Not the client library's
//! `AttachedProcess`: it hangs for ever when the API server dies, and one unread stream blocks the others.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures_util::future::{FutureExt, join};
use futures_util::{SinkExt, StreamExt};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use kube::client::Connection;
use mcp_lifecycle_core::backend::output;
use mcp_lifecycle_core::launch::BoxRead;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_util::sync::{CancellationToken, PollSender};

use self::late::{LATE_EXIT, Late};
use self::read::Reader;
use self::write::{Input, write};
use crate::error::{Case, ClusterError, Result};

mod late;
mod read;
mod write;

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
/// Bytes that probe the supervised init before the gate is opened, and that open it.
const PROBE: u8 = b'?';
const OPEN: u8 = b'!';
/// The init's reply to a probe, on both streams, and its last byte before the server's output.
const ANSWER: u8 = 0x06;
const BEGIN: u8 = 0x02;

/// Interval of probes: a reply is lost while the output is not yet attached.
const PROBE_AGAIN: Duration = Duration::from_millis(50);

const ANSWERS: Duration = Duration::from_secs(20);

const QUEUE: usize = 8;

/// Read buffer per server; the library's default is 128 KiB.
const READ: usize = 8 * 1024;

pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(20);

pub(super) struct Attached<S = TokioIo<Upgraded>> {
    socket: WebSocketStream<S>,
    /// The protocol can close stdin alone.
    half_close: bool,
    /// Drops everything before the server's own output, per stream.
    gated: [bool; 2],
}

impl Attached {
    pub(super) async fn new(connection: Connection) -> Self {
        let half_close = connection.supports_stream_close();
        // Nothing was read yet, so no buffer is lost.
        let io = connection.into_stream().into_inner();
        let config = WebSocketConfig::default().read_buffer_size(READ);
        Self {
            half_close,
            socket: WebSocketStream::from_raw_socket(io, Role::Client, Some(config)).await,
            gated: [false; 2],
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Attached<S> {
    /// Opens the gate of a supervised init, once both outputs are known to be connected.
    pub(super) async fn open_gate(&mut self) -> Result<()> {
        let open = async {
            self.probe().await?;
            self.send(&[STDIN, OPEN]).await
        };
        let opened = timeout(ANSWERS, open).await;
        opened.unwrap_or_else(|_| Err(broken("the init does not answer")))?;
        self.gated = [true; 2];
        Ok(())
    }

    async fn probe(&mut self) -> Result<()> {
        let mut heard = [false; 2];
        loop {
            self.send(&[STDIN, PROBE]).await?;
            let again = sleep(PROBE_AGAIN);
            let mut again = std::pin::pin!(again);
            loop {
                let message = tokio::select! {
                    message = self.socket.next() => message,
                    () = &mut again => break,
                };
                let Some(message) = message else {
                    return Err(broken("the session has ended"));
                };
                match frame(message.map_err(|error| broken(&error.to_string()))?) {
                    Some((stream @ (STDOUT | STDERR), data)) => {
                        heard[usize::from(stream - STDOUT)] |= data.contains(&ANSWER);
                    }
                    Some((STATUS, words)) => {
                        return Err(broken(&String::from_utf8_lossy(&words)));
                    }
                    _ => {}
                }
                if heard == [true; 2] {
                    return Ok(());
                }
            }
        }
    }

    async fn send(&mut self, message: &'static [u8]) -> Result<()> {
        let sent = self.socket.send(Message::binary(message)).await;
        sent.map_err(|error| broken(&error.to_string()))
    }

    /// Splits into stdin, stdout and stderr, and the task that drives them, until `exited` and the end of output.
    pub(super) fn split(
        self,
        discard: CancellationToken,
        keep_alive: Duration,
        exited: impl Future<Output = ()> + Send + 'static,
    ) -> (
        Input,
        [BoxRead; 2],
        impl Future<Output = ()> + Send + 'static,
    ) {
        let (sink, stream) = self.socket.split();
        let (input, fed) = mpsc::channel(QUEUE);
        let (out, stdout) = mpsc::channel(QUEUE);
        let (err, stderr) = mpsc::channel(QUEUE);
        let ended = CancellationToken::new();
        let late = Arc::new(Late::default());
        let reader = Reader {
            stream,
            outputs: [out, err],
            gated: self.gated,
            discard,
            late: Arc::clone(&late),
            broken: None,
        };
        let half_close = self.half_close;
        let task = async move {
            let exited = exited.shared();
            let writing = write(sink, fed, half_close, keep_alive, &ended);
            let reading = async {
                let outputs = reader.read(&ended).await;
                ended.cancel();
                outputs
            };
            // The connection should end with the server. If not, it is closed once output stops
            // arriving.
            let late = async {
                exited.clone().await;
                late.is_over().await;
                ended.cancel();
                std::future::pending::<Infallible>().await
            };
            let (closed_by_us, outputs) = tokio::select! {
                both = join(writing, reading) => both,
                never = late => match never {},
            };
            if closed_by_us && !half_close {
                // The connection was closed to close stdin, so the end of output proves nothing.
                exited.await;
            } else {
                let _ = timeout(LATE_EXIT, exited).await;
            }
            drop(outputs);
        };
        let stdin = Input(PollSender::new(input));
        (stdin, [stdout, stderr].map(output), task)
    }
}

fn broken(problem: &str) -> ClusterError {
    let words = format!("the streams of the pod cannot be had: {problem}");
    ClusterError::of(Case::Attach, words)
}

/// Splits a message into stream number and data, if it has data.
fn frame(message: Message) -> Option<(u8, Bytes)> {
    match message {
        Message::Binary(mut data) if !data.is_empty() => {
            let stream = data.get_u8();
            Some((stream, data))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
