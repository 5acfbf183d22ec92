//! The client's end of a WebSocket, which can break every rule.

use bytes::{Buf, Bytes, BytesMut};
use futures_util::FutureExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

/// Frames over a pipe in memory.
pub(super) struct Wire {
    pipe: DuplexStream,
    /// Bytes that the pipe had no room for.
    unsent: BytesMut,
    received: BytesMut,
}

impl Wire {
    pub(super) fn new(pipe: DuplexStream) -> Self {
        Self {
            pipe,
            unsent: BytesMut::new(),
            received: BytesMut::new(),
        }
    }

    /// A whole frame of text.
    pub(super) fn send_frame(&mut self, text: &[u8]) {
        self.head(text.len());
        self.send_bytes(text);
    }

    /// The head of a frame of text, and this much of it.
    pub(super) fn send_part(&mut self, text: &[u8], length: usize) {
        self.head(text.len() + length);
        self.send_bytes(text);
    }

    /// Bytes as they are.
    pub(super) fn send_bytes(&mut self, bytes: &[u8]) {
        // Who does not take its answers is not read: what it says is bounded here.
        if self.unsent.len() < 256 << 10 {
            self.unsent.extend_from_slice(bytes);
        }
        self.flush();
    }

    /// Masked with zeros, so that the text stands as it is.
    fn head(&mut self, length: usize) {
        self.send_bytes(&[0x81]);
        match length {
            0..126 => self.send_bytes(&[0x80 | length as u8]),
            126..65_536 => {
                self.send_bytes(&[0x80 | 126]);
                self.send_bytes(&(length as u16).to_be_bytes());
            }
            _ => {
                self.send_bytes(&[0x80 | 127]);
                self.send_bytes(&(length as u64).to_be_bytes());
            }
        }
        self.send_bytes(&[0; 4]);
    }

    fn flush(&mut self) {
        while !self.unsent.is_empty()
            && let Some(Ok(written)) = self.pipe.write(&self.unsent).now_or_never()
        {
            self.unsent.advance(written);
        }
    }

    /// The next frame of text or bytes.
    pub(super) fn receive(&mut self) -> Option<Bytes> {
        self.flush();
        while let Some(Ok(1..)) = self.pipe.read_buf(&mut self.received).now_or_never() {}
        loop {
            let head = &self.received[..];
            let (kind, short) = (head.first()? & 0x0f, usize::from(*head.get(1)?));
            let (start, length) = match short {
                126 => (
                    4,
                    usize::from(u16::from_be_bytes(head.get(2..4)?.try_into().ok()?)),
                ),
                127 => (
                    10,
                    u64::from_be_bytes(head.get(2..10)?.try_into().ok()?) as usize,
                ),
                short => (2, short),
            };
            if head.len() < start + length {
                return None;
            }
            self.received.advance(start);
            let content = self.received.split_to(length).freeze();
            if kind == 1 || kind == 2 {
                return Some(content);
            }
        }
    }
}
