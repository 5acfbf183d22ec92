use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::{Sink, Stream};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::{CloseCode, Counted, Incoming, Link, LinkError};

pub struct WebSocketLink<S> {
    socket: WebSocketStream<Counted<S>>,
    buffered: usize,
    /// Number of bytes received up to the last complete frame, and of control frames since.
    accounted: u64,
}

const CONTROL: usize = 6;

const PONG: usize = 16;

pub fn config(limit: usize) -> WebSocketConfig {
    WebSocketConfig::default()
        .max_message_size(Some(limit))
        .max_frame_size(Some(limit))
        .read_buffer_size(64 * 1024)
        // The owner flushes, and checks `buffered` before it sends.
        .write_buffer_size(64 * 1024)
}

impl<S> WebSocketLink<S> {
    pub fn new(socket: WebSocketStream<Counted<S>>) -> Self {
        Self {
            socket,
            buffered: 0,
            accounted: 0,
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocketLink<S> {
    fn start_send(&mut self, message: Message) -> Result<(), LinkError> {
        self.buffered += message.len();
        Pin::new(&mut self.socket)
            .start_send(message)
            .map_err(failure)
    }
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Link for WebSocketLink<S> {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Incoming, LinkError>>> {
        let message = match ready!(Pin::new(&mut self.socket).poll_next(cx)) {
            Some(Ok(message)) => message,
            None | Some(Err(Error::ConnectionClosed | Error::AlreadyClosed)) => {
                return Poll::Ready(None);
            }
            Some(Err(error)) => return Poll::Ready(Some(Err(failure(error)))),
        };
        self.accounted = match &message {
            Message::Text(_) | Message::Binary(_) => self.received(),
            control => self.accounted + (CONTROL + control.len()) as u64,
        };
        Poll::Ready(Some(Ok(match message {
            Message::Text(text) => Incoming::Frame(Bytes::from(text)),
            Message::Binary(bytes) => Incoming::Frame(bytes),
            Message::Ping(content) => {
                // The socket has queued the answer by itself.
                self.buffered += PONG + content.len();
                Incoming::Alive
            }
            Message::Pong(_) | Message::Frame(_) => Incoming::Alive,
            Message::Close(Some(frame)) if !frame.reason.is_empty() => {
                return Poll::Ready(Some(Err(LinkError::Closed {
                    code: frame.code.into(),
                    reason: frame.reason.as_str().to_owned(),
                })));
            }
            Message::Close(_) => return Poll::Ready(None),
        })))
    }

    fn send(&mut self, frame: String) -> Result<(), LinkError> {
        self.start_send(Message::Text(frame.into()))
    }

    fn send_raw(&mut self, frame: Vec<u8>) -> Result<(), LinkError> {
        self.start_send(Message::Binary(frame.into()))
    }

    fn ping(&mut self) -> bool {
        // A link that fails here fails in the next poll as well.
        let _ = Pin::new(&mut self.socket).start_send(Message::Ping(Bytes::new()));
        true
    }

    fn buffered(&self) -> usize {
        self.buffered
    }

    fn received(&self) -> u64 {
        self.socket.get_ref().read_so_far()
    }

    fn unfinished(&self) -> usize {
        self.received().saturating_sub(self.accounted) as usize
    }

    fn admit(&mut self, bytes: usize) {
        self.socket.get_mut().admit(bytes);
    }

    fn is_held(&self) -> bool {
        self.socket.get_ref().is_held()
    }

    fn close(&mut self, code: CloseCode, reason: &str) {
        let frame = CloseFrame {
            code: (code as u16).into(),
            reason: reason.into(),
        };
        // A link that fails here fails in the flush as well.
        let _ = Pin::new(&mut self.socket).start_send(Message::Close(Some(frame)));
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkError>> {
        ready!(Pin::new(&mut self.socket).poll_flush(cx)).map_err(failure)?;
        self.buffered = 0;
        Poll::Ready(Ok(()))
    }
}

fn failure(error: Error) -> LinkError {
    match error {
        Error::Io(error) => LinkError::Io(error),
        other => LinkError::WebSocket(Box::new(other)),
    }
}
