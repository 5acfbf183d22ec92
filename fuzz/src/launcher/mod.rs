//! The code that the fuzz targets of `fuzz/` reach: the parsers that are not public, and the
//! state machines of both sides. Only there with `--cfg fuzzing`.

mod choices;

mod client;

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, ReadBuf};

pub use client::client_session;

use crate::link::{Incoming, LineLink, Link as _};
use crate::protocol::{path_from_wire, path_to_uri};

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

/// Reads an answer of the helper script on a plain peer.
pub fn helper(bytes: &[u8]) {
    crate::client::fuzzing::helper_answer(bytes);
}
