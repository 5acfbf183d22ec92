use std::sync::Arc;

use bytes::{Buf, Bytes};
use futures_util::StreamExt;
use futures_util::stream::SplitStream;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::late::{Cut, Late};
use super::{BEGIN, STATUS, STDERR, STDOUT, frame};

pub(super) struct Reader<S> {
    pub(super) stream: SplitStream<WebSocketStream<S>>,
    pub(super) outputs: [mpsc::Sender<Bytes>; 2],
    pub(super) gated: [bool; 2],
    pub(super) discard: CancellationToken,
    pub(super) late: Arc<Late>,
    /// The reason that the session ended without its server.
    pub(super) broken: Option<String>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Reader<S> {
    /// Reads until the session ends. Dropping the returned senders ends the outputs.
    pub(super) async fn read(mut self, ended: &CancellationToken) -> [mpsc::Sender<Bytes>; 2] {
        loop {
            let message = tokio::select! {
                // After a cut message nothing may follow.
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

    /// Writes to stderr why the session broke, which looks like a plain end of both outputs.
    fn tell_why(&mut self) {
        let Some(why) = self.broken.take() else {
            return;
        };
        debug!(why, "the session broke");
        if !self.discard.is_cancelled() {
            let line = format!("[mcp-launcher-kubernetes] the session with the pod broke: {why}\n");
            // Do not wait for a reader that is behind.
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
        // A slow reader blocks the server, as a pipe would, until its end begins.
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

fn failure(status: &[u8]) -> Option<String> {
    let status: kube::core::Status = serde_json::from_slice(status).ok()?;
    let is_failure = status.is_failure();
    is_failure.then(|| {
        format!("{} {}", status.reason, status.message)
            .trim()
            .to_owned()
    })
}
