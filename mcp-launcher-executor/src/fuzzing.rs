//! What the fuzz targets of `fuzz/` reach: the parsers that are not public, and the
//! state machines of both sides. Only there with `--cfg fuzzing`.

#![expect(missing_docs, reason = "for the targets, which say what they do")]

mod client;

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, ReadBuf};

pub use client::client_session;

use crate::daemon::fuzzing as daemon;
use crate::link::{Incoming, LineLink, Link as _};
use crate::protocol::{path_from_wire, path_to_uri};

/// Bytes as choices; zero when there are no more.
pub(crate) struct Choices<'a>(pub(crate) &'a [u8]);

impl<'a> Choices<'a> {
    pub(crate) fn more(&self) -> bool {
        !self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    /// Whether to do what is rarer than its opposite.
    pub(crate) fn one_in(&mut self, many: u8) -> bool {
        self.byte().is_multiple_of(many)
    }

    pub(crate) fn number(&mut self) -> u64 {
        // Small ones mostly, and the ends of the range.
        match self.byte() {
            255 => u64::MAX,
            254 => u64::from(u32::MAX),
            253 => u64::from(self.byte()) << 56,
            small => u64::from(small),
        }
    }

    /// A piece of as many bytes as the next one says.
    pub(crate) fn bytes(&mut self) -> &'a [u8] {
        let length = usize::from(self.byte()).min(self.0.len());
        let (piece, rest) = self.0.split_at(length);
        self.0 = rest;
        piece
    }
}

/// Lines over a pipe that delivers them in pieces.
pub fn lines(bytes: &[u8]) {
    const LIMIT: usize = 64;
    let mut link = LineLink::new(Pieces::of(bytes), tokio::io::sink(), LIMIT);
    let mut context = Context::from_waker(Waker::noop());
    let mut seen = 0;
    loop {
        match link.poll_recv(&mut context) {
            Poll::Ready(Some(Ok(Incoming::Frame(frame)))) => {
                assert!(frame.len() <= LIMIT && frame.ends_with(b"\n"));
                seen += frame.len();
            }
            Poll::Ready(Some(Ok(Incoming::TooLarge(size)))) => {
                assert!(size > LIMIT);
                seen += size;
            }
            Poll::Ready(Some(Ok(Incoming::Alive) | Err(_))) => unreachable!("it has lines only"),
            Poll::Ready(None) => break,
            Poll::Pending => unreachable!("everything is there"),
        }
    }
    assert!(seen <= bytes.len());
}

/// Bytes that arrive in pieces, whose length the first of them says.
struct Pieces<'a> {
    rest: &'a [u8],
    each: usize,
}

impl<'a> Pieces<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        let each = bytes.first().map_or(1, |first| 1 + usize::from(*first));
        Self { rest: bytes, each }
    }
}

impl AsyncRead for Pieces<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let length = self.each.min(self.rest.len()).min(buffer.remaining());
        let (piece, rest) = self.rest.split_at(length);
        buffer.put_slice(piece);
        self.rest = rest;
        Poll::Ready(Ok(()))
    }
}

/// Paths and URIs.
pub fn uri(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Some(path) = path_from_wire(text) {
        let again = path_from_wire(&path_to_uri(&path));
        assert_eq!(again.as_deref(), Some(&*path), "{text:?}");
    }
}

pub fn request(bytes: &[u8]) {
    daemon::request(bytes);
}

/// What the helper script on a plain peer answers.
pub fn helper(bytes: &[u8]) {
    crate::client::fuzzing::helper_answer(bytes);
}

pub fn connections(bytes: &[u8]) {
    daemon::connections(bytes);
}

pub fn pem(bytes: &[u8]) {
    daemon::pem(bytes);
}

pub fn params(bytes: &[u8]) {
    daemon::params(bytes);
}

pub fn environment(bytes: &[u8]) {
    daemon::environment(bytes);
}

pub fn output(bytes: &[u8]) {
    daemon::output(bytes);
}

pub fn stdin(bytes: &[u8]) {
    daemon::stdin(bytes);
}
