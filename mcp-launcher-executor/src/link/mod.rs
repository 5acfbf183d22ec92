//! Links: where frames come from and go to. One message per frame.
//!
//! A link is polled by the one task that owns it, in both directions, so that
//! neither direction ever waits for the other.

#![cfg_attr(
    not(feature = "daemon"),
    expect(
        dead_code,
        reason = "only the daemon has output, budgets and a reason to end a link"
    )
)]

#[cfg(feature = "websocket")]
mod counted;
mod lines;
#[cfg(feature = "websocket")]
mod websocket;

use std::task::{Context, Poll};

use bytes::Bytes;
use thiserror::Error;

#[cfg(feature = "websocket")]
pub(crate) use counted::Counted;
pub(crate) use lines::LineLink;
#[cfg(feature = "websocket")]
pub(crate) use websocket::WebSocketLink;
#[cfg(feature = "websocket")]
pub(crate) use websocket::config as websocket_config;

/// Bytes that may wait in a link before its owner stops feeding it.
pub(crate) const HIGH_WATER: usize = 256 * 1024;

/// An arrival on a link.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// One message.
    Frame(Bytes),
    /// A sign of life below the protocol.
    #[cfg_attr(
        not(feature = "websocket"),
        expect(dead_code, reason = "only sockets have pings")
    )]
    Alive,
    /// A frame over the limit; it was discarded and the link goes on.
    TooLarge(usize),
}

impl LinkError {
    /// The code to close with, for the other end, which may be listening still.
    #[cfg(feature = "daemon")]
    pub(crate) fn close_code(&self) -> CloseCode {
        use tokio_tungstenite::tungstenite::Error;
        match self {
            Self::WebSocket(error) if matches!(**error, Error::Capacity(_)) => CloseCode::TooLarge,
            _ => CloseCode::Protocol,
        }
    }

    /// Whether a frame of ours was too large for the other end.
    pub(crate) fn is_too_large(&self) -> bool {
        #[cfg(feature = "websocket")]
        return matches!(self, Self::Closed { code, .. } if *code == CloseCode::TooLarge as u16);
        #[cfg(not(feature = "websocket"))]
        false
    }
}

/// Frames in both directions.
pub(crate) trait Link: Send {
    /// The next frame; `None` at the end.
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Incoming, LinkError>>>;

    /// Queues a frame. Look at [`buffered`](Self::buffered) first.
    fn send(&mut self, frame: String) -> Result<(), LinkError>;

    /// As [`send`](Self::send), of bytes that are no text. Refused by a link
    /// that has only lines.
    fn send_raw(&mut self, _frame: Vec<u8>) -> Result<(), LinkError> {
        Err(std::io::Error::from(std::io::ErrorKind::Unsupported).into())
    }

    /// Asks the other end for a sign of life. `false` where the link has no
    /// means of its own.
    fn ping(&mut self) -> bool {
        false
    }

    /// Bytes that are queued, at most; answers to pings are among them.
    fn buffered(&self) -> usize;

    /// Bytes that have arrived since the link was made: a sign of life, also
    /// while a frame is not complete.
    fn received(&self) -> u64;

    /// Bytes in memory of a frame that is not complete, where clients compete for it:
    /// a link that has only lines has one client.
    fn unfinished(&self) -> usize {
        0
    }

    /// So many bytes may arrive; then nothing does, and nobody is woken, until
    /// this is said again. Without it there is no bound. No effect on a link that
    /// has only lines.
    fn admit(&mut self, _bytes: usize) {}

    /// Whether as much has arrived as was admitted.
    fn is_held(&self) -> bool {
        false
    }

    /// Says why the link ends, where it can; it is still to be flushed.
    fn close(&mut self, _code: CloseCode, _reason: &str) {}

    /// Writes out what is queued.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkError>>;
}

/// Why a link is ended, as WebSockets have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseCode {
    /// The link is not needed any more.
    Normal = 1000,
    /// The end that closes it is leaving.
    Away = 1001,
    /// The other end broke the protocol.
    Protocol = 1002,
    /// The other end did what is not allowed.
    Policy = 1008,
    /// A frame is too large.
    TooLarge = 1009,
    /// There is no room now.
    TryAgain = 1013,
}

/// Why a link ended.
#[derive(Debug, Error)]
pub(crate) enum LinkError {
    #[error("the transport failed")]
    Io(#[from] std::io::Error),
    #[cfg(feature = "websocket")]
    #[error("the WebSocket failed")]
    WebSocket(#[source] Box<tokio_tungstenite::tungstenite::Error>),
    #[cfg(feature = "websocket")]
    #[error("the other end closed it: {reason} (code {code})")]
    Closed { code: u16, reason: String },
}
