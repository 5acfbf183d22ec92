//! One message per line, over any pair of byte streams.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Incoming, Link, LinkError};

const READ: usize = 64 * 1024;

/// Lines of JSON; blank ones are ignored.
pub struct LineLink<R, W> {
    read: R,
    write: W,
    input: BytesMut,
    scanned: usize,
    discarded: usize,
    limit: usize,
    output: BytesMut,
    ended: bool,
    received: u64,
}

impl<R, W> LineLink<R, W> {
    pub fn new(read: R, write: W, limit: usize) -> Self {
        Self {
            read,
            write,
            input: BytesMut::new(),
            scanned: 0,
            discarded: 0,
            limit,
            output: BytesMut::new(),
            ended: false,
            received: 0,
        }
    }

    fn next_line(&mut self) -> Option<Incoming> {
        loop {
            let Some(found) = memchr::memchr(b'\n', &self.input[self.scanned..]) else {
                self.scanned = self.input.len();
                if self.scanned > self.limit {
                    self.discarded += self.scanned;
                    self.input.clear();
                    self.scanned = 0;
                }
                return None;
            };
            let end = self.scanned + found;
            let line = self.input.split_to(end + 1);
            self.scanned = 0;
            let discarded = std::mem::take(&mut self.discarded);
            if discarded > 0 || line.len() > self.limit {
                return Some(Incoming::TooLarge(discarded + line.len()));
            }
            if !line.trim_ascii().is_empty() {
                return Some(Incoming::Frame(line.freeze()));
            }
        }
    }
}

impl<R, W> Link for LineLink<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin,
{
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Incoming, LinkError>>> {
        loop {
            if let Some(line) = self.next_line() {
                return Poll::Ready(Some(Ok(line)));
            }
            if self.ended {
                return Poll::Ready(None);
            }
            let filled = self.input.len();
            self.input.resize(filled + READ, 0);
            let mut buffer = ReadBuf::new(&mut self.input[filled..]);
            let poll = Pin::new(&mut self.read).poll_read(cx, &mut buffer);
            let read = buffer.filled().len();
            self.input.truncate(filled + read);
            self.received += read as u64;
            match ready!(poll) {
                Ok(()) if read == 0 => self.ended = true,
                Ok(()) => {}
                Err(error) => return Poll::Ready(Some(Err(error.into()))),
            }
        }
    }

    fn send(&mut self, frame: String) -> Result<(), LinkError> {
        self.output.extend_from_slice(frame.as_bytes());
        self.output.extend_from_slice(b"\n");
        Ok(())
    }

    fn buffered(&self) -> usize {
        self.output.len()
    }

    fn received(&self) -> u64 {
        self.received
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkError>> {
        while !self.output.is_empty() {
            let written = ready!(Pin::new(&mut self.write).poll_write(cx, &self.output))?;
            if written == 0 {
                return Poll::Ready(Err(
                    std::io::Error::from(std::io::ErrorKind::WriteZero).into()
                ));
            }
            self.output.advance(written);
        }
        Pin::new(&mut self.write).poll_flush(cx).map_err(Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use tokio::io::AsyncWriteExt;

    #[tokio::test]
    async fn lines_arrive_whole_and_an_oversized_one_costs_only_itself() {
        let (mut far, near) = tokio::io::duplex(7);
        let (read, write) = tokio::io::split(near);
        let mut link = LineLink::new(read, write, 8);
        let feed = tokio::spawn(async move {
            far.write_all(b"one\n\n  \n0123456789abcdef\ntwo\ncut")
                .await
                .unwrap();
        });
        let mut seen = Vec::new();
        while let Some(item) = poll_fn(|cx| link.poll_recv(cx)).await {
            seen.push(match item.unwrap() {
                Incoming::Frame(line) => String::from_utf8(line.to_vec()).unwrap(),
                Incoming::TooLarge(size) => format!("{size} bytes"),
                Incoming::Alive => unreachable!("lines have no pings"),
            });
        }
        feed.await.unwrap();
        assert_eq!(seen, ["one\n", "17 bytes", "two\n"]);
    }

    /// Bytes that are there at once, and then end of file.
    async fn received(bytes: &[u8], limit: usize) -> (Vec<usize>, u64) {
        let mut link = LineLink::new(bytes, Vec::new(), limit);
        let mut sizes = Vec::new();
        while let Some(item) = poll_fn(|cx| link.poll_recv(cx)).await {
            sizes.push(match item.unwrap() {
                Incoming::Frame(line) => line.len(),
                Incoming::TooLarge(size) => size * 1000,
                Incoming::Alive => unreachable!("lines have no pings"),
            });
        }
        assert!(link.input.len() <= limit, "{} bytes kept", link.input.len());
        (sizes, link.received())
    }

    #[tokio::test]
    async fn a_line_of_the_limit_is_a_frame() {
        assert_eq!(received(b"1234567\n\n12\n", 8).await, (vec![8, 3], 12));
        assert_eq!(received(b"12345678\n12\n", 8).await, (vec![9000, 3], 12));
        assert_eq!(received(&[b'x'; 100], 8).await, (vec![], 100));
        // One that is read in several pieces, of which the first fills the limit.
        for more in [0, 1] {
            let mut line = vec![b'x'; 2 * READ - 1 + more];
            line.push(b'\n');
            let size = line.len();
            let expected = if more == 0 { size } else { size * 1000 };
            let found = received(&line, 2 * READ).await;
            assert_eq!(found, (vec![expected], size as u64), "{more}");
        }
    }

    #[tokio::test]
    async fn frames_are_buffered_until_they_are_flushed() {
        let mut link = LineLink::new(&b""[..], Vec::new(), 8);
        link.send("one".to_owned()).unwrap();
        link.send("two".to_owned()).unwrap();
        assert_eq!((link.buffered(), link.write.len()), (8, 0));
        poll_fn(|cx| link.poll_flush(cx)).await.unwrap();
        assert_eq!((link.buffered(), &link.write[..]), (0, &b"one\ntwo\n"[..]));
        // A writer without room is none that could be waited for.
        let mut link = LineLink::new(&b""[..], std::io::Cursor::new(Box::<[u8]>::default()), 8);
        link.send("one".to_owned()).unwrap();
        let error = poll_fn(|cx| link.poll_flush(cx)).await.unwrap_err();
        assert!(matches!(error, LinkError::Io(it) if it.kind() == std::io::ErrorKind::WriteZero));
        assert_eq!(link.buffered(), 4);
    }
}
