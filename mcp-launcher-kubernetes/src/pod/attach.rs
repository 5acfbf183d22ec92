//! The streams of a pod: one WebSocket, and the two tasks that own it.
//!
//! Each message begins with the number of its stream. Nothing of a message is interpreted but
//! that. The client library's own attached process is not used: it hangs for ever when the
//! API server dies, and one stream that nobody reads blocks the others and the pings.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures_util::future::{FutureExt, join};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use kube::client::Connection;
use mcp_lifecycle_host::output::Output;
use tokio::io::{self, AsyncRead, AsyncWrite};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_util::sync::{CancellationToken, PollSender};
use tracing::debug;

use crate::error::ClusterError;

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
/// How the session itself has ended.
const STATUS: u8 = 3;
/// Closes the stream whose number follows: from version 5 of the protocol on.
const CLOSE: u8 = 255;

/// Bytes that probe the supervised init before the gate is opened, and that open it.
const PROBE: u8 = b'?';
const OPEN: u8 = b'!';
/// Its answer to a probe, on both streams, and its last byte before the server's output.
const ANSWER: u8 = 0x06;
const BEGIN: u8 = 0x02;

/// An answer may be lost where the output was not attached yet: it is asked again.
const PROBE_AGAIN: Duration = Duration::from_millis(50);

/// How long the init may take to answer.
const ANSWERS: Duration = Duration::from_secs(20);

/// The number of messages that wait for a reader, or for the connection.
const QUEUE: usize = 8;

/// How much is read at a time, and is kept for it by each server: 128 KiB otherwise.
const READ: usize = 8 * 1024;

/// The longest message to standard input.
const CHUNK: usize = 32 * 1024;

/// How often a session is kept alive, unless a host says otherwise.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// How long the end of the output waits for the word that the server has exited, and that word
/// for more output: so long after the last message that was taken.
const LATE_EXIT: Duration = Duration::from_secs(5);

/// How long after the word that the server has exited output may arrive at most.
const LATE_OUTPUT: Duration = Duration::from_secs(60);

/// The streams as the host sees them.
pub(super) struct Streams {
    pub(super) stdin: Input,
    pub(super) stdout: Output,
    pub(super) stderr: Output,
}

/// An attached connection, not yet in use.
pub(super) struct Attached<S = TokioIo<Upgraded>> {
    socket: WebSocketStream<S>,
    /// Standard input can be closed alone.
    half_close: bool,
    /// What precedes the server's own output is left out, per stream.
    gated: [bool; 2],
}

impl Attached {
    pub(super) async fn new(connection: Connection) -> Self {
        let half_close = connection.supports_stream_close();
        // Nothing was read yet: all is still in what is within.
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
    /// Opens the gate of a supervised init, once both of its outputs are known to arrive:
    /// what the server says from its first byte on is not lost.
    pub(super) async fn open_gate(&mut self) -> Result<(), ClusterError> {
        let open = async {
            self.probe().await?;
            self.send(&[STDIN, OPEN]).await
        };
        let opened = timeout(ANSWERS, open).await;
        opened.unwrap_or_else(|_| Err(broken("the init does not answer")))?;
        self.gated = [true; 2];
        Ok(())
    }

    async fn probe(&mut self) -> Result<(), ClusterError> {
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

    async fn send(&mut self, message: &'static [u8]) -> Result<(), ClusterError> {
        let sent = self.socket.send(Message::binary(message)).await;
        sent.map_err(|error| broken(&error.to_string()))
    }

    /// The streams, and the task that has to be run for them. `exited` completes when it is
    /// known how the server ended; from `discard` on nobody is waited for.
    pub(super) fn split(
        self,
        discard: CancellationToken,
        keep_alive: Duration,
        exited: impl Future<Output = ()> + Send + 'static,
    ) -> (Streams, impl Future<Output = ()> + Send + 'static) {
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
            // The connection ends with the server; where it does not, it is of no use once what
            // was under way has arrived.
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
                // The output was given up with the input: its end means nothing.
                exited.await;
            } else {
                let _ = timeout(LATE_EXIT, exited).await;
            }
            drop(outputs);
        };
        let streams = Streams {
            stdin: Input(PollSender::new(input)),
            stdout: Output::new(stdout),
            stderr: Output::new(stderr),
        };
        (streams, task)
    }
}

fn broken(problem: &str) -> ClusterError {
    ClusterError::Attach(problem.to_owned())
}

/// The stream and the data of a message, if it has any.
fn frame(message: Message) -> Option<(u8, Bytes)> {
    match message {
        Message::Binary(mut data) if !data.is_empty() => {
            let stream = data.get_u8();
            Some((stream, data))
        }
        _ => None,
    }
}

/// The words of a session's status, if it is a failure.
fn failure(status: &[u8]) -> Option<String> {
    let status: kube::core::Status = serde_json::from_slice(status).ok()?;
    let is_failure = status.is_failure();
    is_failure.then(|| {
        format!("{} {}", status.reason, status.message)
            .trim()
            .to_owned()
    })
}

/// Feeds standard input, until it is closed or the session has ended. Whether it was closed.
async fn write<S: AsyncRead + AsyncWrite + Unpin>(
    mut sink: SplitSink<WebSocketStream<S>, Message>,
    mut fed: mpsc::Receiver<Bytes>,
    half_close: bool,
    keep_alive: Duration,
    ended: &CancellationToken,
) -> bool {
    // Also while there is input: what comes back may be nothing else.
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
            // The API server and kubelets count data only: an empty message to standard input.
            None => input(&[]),
            Some(None) if half_close => Message::binary(vec![CLOSE, STDIN]),
            Some(None) => Message::Close(None),
        };
        let sending = async {
            sink.send(message).await?;
            if data.is_none() {
                // Some proxies look at what comes back only: the answer to this.
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

/// A message to standard input.
fn input(data: &[u8]) -> Message {
    let mut message = BytesMut::with_capacity(data.len() + 1);
    message.put_u8(STDIN);
    message.put_slice(data);
    Message::Binary(message.freeze())
}

/// The output that arrives after the word that the server has exited.
#[derive(Default)]
struct Late {
    /// Told of each message that was taken.
    taken: Notify,
    cut: OnceLock<Cut>,
}

/// Why the session is ended after its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// No output was taken for [`LATE_EXIT`].
    Quiet,
    /// Output arrived for [`LATE_OUTPUT`].
    Endless,
}

impl Cut {
    /// The words for whoever reads what was not lost.
    fn words(self) -> String {
        match self {
            Self::Quiet => {
                let limit = LATE_EXIT.as_secs();
                format!("its last output is lost, for nobody took it for {limit} s")
            }
            Self::Endless => {
                let limit = LATE_OUTPUT.as_secs();
                format!("its output was still under way {limit} s after the server's exit")
            }
        }
    }
}

impl Late {
    /// Until no output was taken for a while, or it has lasted too long.
    async fn is_over(&self) {
        let mut most = std::pin::pin!(sleep(LATE_OUTPUT));
        let cut = loop {
            tokio::select! {
                biased;
                () = &mut most => break Cut::Endless,
                () = self.taken.notified() => {}
                () = sleep(LATE_EXIT) => break Cut::Quiet,
            }
        };
        let _ = self.cut.set(cut);
    }
}

struct Reader<S> {
    stream: SplitStream<WebSocketStream<S>>,
    outputs: [mpsc::Sender<Bytes>; 2],
    gated: [bool; 2],
    discard: CancellationToken,
    late: Arc<Late>,
    /// Why the session has ended, where not with the server.
    broken: Option<String>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Reader<S> {
    /// Reads until the session ends. The outputs end with what it returns.
    async fn read(mut self, ended: &CancellationToken) -> [mpsc::Sender<Bytes>; 2] {
        loop {
            let message = tokio::select! {
                // Nothing follows a message that was cut.
                biased;
                () = ended.cancelled() => {
                    if self.late.cut.get() == Some(&Cut::Endless) {
                        self.broken = Some(Cut::Endless.words());
                    }
                    break;
                }
                message = self.stream.next() => message,
            };
            match message {
                Some(Ok(message)) => self.take(message, ended).await,
                Some(Err(error)) => {
                    self.broken = Some(error.to_string());
                    break;
                }
                None => break,
            }
        }
        self.tell_why();
        self.outputs
    }

    /// Tells the reader of standard error why the session broke: the end of both outputs is all
    /// that is seen of it otherwise. An end that was ordered needs no reason.
    fn tell_why(&mut self) {
        let Some(why) = self.broken.take() else {
            return;
        };
        debug!(why, "the session broke");
        if !self.discard.is_cancelled() {
            let line = format!("[mcp-launcher-kubernetes] the session with the pod broke: {why}\n");
            // Who has not read what came before is not waited for.
            let _ = self.outputs[1].try_send(line.into());
        }
    }

    async fn take(&mut self, message: Message, ended: &CancellationToken) {
        let Some((stream, mut data)) = frame(message) else {
            return;
        };
        let at = match stream {
            STDOUT | STDERR => usize::from(stream - STDOUT),
            STATUS => {
                self.broken = failure(&data);
                return;
            }
            _ => return,
        };
        if self.gated[at] {
            match data.iter().position(|&byte| byte == BEGIN) {
                Some(begin) => data.advance(begin + 1),
                None => return,
            }
            self.gated[at] = false;
        }
        if data.is_empty() {
            return;
        }
        // A slow reader holds the server back, as a pipe would, until its end has begun.
        if let Err(mpsc::error::TrySendError::Full(data)) = self.outputs[at].try_send(data) {
            tokio::select! {
                biased;
                _ = self.outputs[at].send(data) => {}
                () = self.discard.cancelled() => {}
                () = ended.cancelled() => {
                    if let Some(cut) = self.late.cut.get() {
                        self.broken = Some(cut.words());
                    }
                    return;
                }
            }
        }
        self.late.taken.notify_one();
    }
}

/// The server's standard input.
///
/// # Drop
///
/// Closes it.
pub(super) struct Input(PollSender<Bytes>);

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

#[cfg(test)]
#[path = "attach_tests.rs"]
mod tests;
