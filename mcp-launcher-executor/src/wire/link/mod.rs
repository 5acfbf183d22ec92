//! Links carry frames, with one message per frame. The task that owns a link polls both directions,
//! so that neither waits for the other.

mod counted;
mod lines;
mod websocket;

use std::task::{Context, Poll};

use bytes::Bytes;
use thiserror::Error;

pub use counted::Counted;
pub use lines::LineLink;
pub use websocket::{WebSocketLink, config as websocket_config};

/// Queued bytes at which a link's owner stops sending.
pub const HIGH_WATER: usize = 256 * 1024;

#[derive(Debug)]
pub enum Incoming {
    Frame(Bytes),
    Alive,
    /// A frame over the limit was discarded; the link continues.
    TooLarge(usize),
}

impl LinkError {
    /// Returns the code to close with, for an end that may still read.
    pub fn close_code(&self) -> CloseCode {
        use tokio_tungstenite::tungstenite::Error;
        match self {
            Self::WebSocket(error) if matches!(**error, Error::Capacity(_)) => CloseCode::TooLarge,
            _ => CloseCode::Protocol,
        }
    }

    pub fn is_too_large(&self) -> bool {
        matches!(self, Self::Closed { code, .. } if *code == CloseCode::TooLarge as u16)
    }
}

pub trait Link: Send {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Incoming, LinkError>>>;

    /// Queues a frame. Look at [`buffered`](Self::buffered) first.
    fn send(&mut self, frame: String) -> Result<(), LinkError>;

    /// Does the same as [`send`](Self::send), with binary data. Refused by line-based links.
    fn send_raw(&mut self, _frame: Vec<u8>) -> Result<(), LinkError> {
        Err(std::io::Error::from(std::io::ErrorKind::Unsupported).into())
    }

    /// Pings the other end. Returns `false` if the link has no pings.
    fn ping(&mut self) -> bool {
        false
    }

    /// Returns an upper bound of queued bytes, including answers to pings.
    fn buffered(&self) -> usize;

    /// Returns the number of bytes received: a sign of life even within a frame.
    fn received(&self) -> u64;

    /// Returns the buffered bytes of an incomplete frame, if clients compete for memory; a
    /// line-based link has only one client.
    fn unfinished(&self) -> usize {
        0
    }

    /// Admits this many bytes; after that, nothing arrives until the next call. Unlimited by
    /// default. No effect on a line-based link.
    fn admit(&mut self, _bytes: usize) {}

    fn is_held(&self) -> bool {
        false
    }

    /// Sends the reason of the end, if possible; must still be flushed.
    fn close(&mut self, _code: CloseCode, _reason: &str) {}

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkError>>;
}

/// The reason to end a link, as in WebSockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseCode {
    Normal = 1000,
    Away = 1001,
    Protocol = 1002,
    Policy = 1008,
    TooLarge = 1009,
    TryAgain = 1013,
}

#[derive(Debug, Error)]
pub enum LinkError {
    #[error("the transport failed")]
    Io(#[from] std::io::Error),
    #[error("the WebSocket failed")]
    WebSocket(#[source] Box<tokio_tungstenite::tungstenite::Error>),
    #[error("the other end closed it: {reason} (code {code})")]
    Closed { code: u16, reason: String },
}
