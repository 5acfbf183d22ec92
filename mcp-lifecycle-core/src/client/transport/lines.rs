//! Bounded lines from a byte stream, without a per-server buffer while idle.

#![cfg_attr(
    all(windows, target_env = "gnu"),
    expect(
        clippy::missing_const_for_thread_local,
        reason = "they are; the macro hides it there"
    )
)]

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use memchr::memchr;
use tokio::io::{AsyncRead, ReadBuf};
use tokio_util::io::poll_read_buf;

use crate::launch::BoxRead;
use crate::launch::macros::debug_fields;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    Complete(&'a [u8]),
    Oversized(&'a [u8]),
}

pub(crate) struct LineReader {
    io: BoxRead,
    partial: Vec<u8>,
    searched: usize,
    discarding: bool,
    limit: usize,
}

pub(super) const READS_PER_TURN: usize = 32;

/// Size of one read, which is the capacity of a pipe.
const SCRATCH: usize = 64 * 1024;

/// Length that is kept of an oversized line, to find its ID.
const OVERSIZED_HEAD: usize = 1024;

/// Largest buffer that a thread keeps for the next long line, which saves allocations and page
/// faults.
const KEPT_SPARE: usize = 4 * 1024 * 1024;

thread_local! {
    /// Shared by all servers that are read on this thread; empty during a read, in which foreign
    /// code (a launcher's stream, an observer) may read another server.
    static SCRATCH_BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl LineReader {
    pub(crate) fn new(io: BoxRead, limit: usize) -> Self {
        Self {
            io,
            partial: Vec::new(),
            searched: 0,
            discarding: false,
            limit,
        }
    }

    /// Reads once and passes every complete line to `sink`.
    ///
    /// Returns `Ready(Ok(false))` at the end of the stream, after an unterminated last line. Cancel
    /// safe.
    pub(crate) fn poll_lines(
        &mut self,
        cx: &mut Context<'_>,
        sink: &mut dyn FnMut(Line<'_>),
    ) -> Poll<io::Result<bool>> {
        if self.partial.is_empty() {
            let mut scratch = SCRATCH_BUFFER.take();
            scratch.resize(SCRATCH, 0);
            let mut buf = ReadBuf::new(&mut scratch);
            let read = Pin::new(&mut self.io).poll_read(cx, &mut buf);
            let lines = read.map_ok(|()| self.take_fresh(buf.filled(), sink));
            SCRATCH_BUFFER.set(scratch);
            lines
        } else {
            make_room(&mut self.partial);
            let n = ready!(poll_read_buf(Pin::new(&mut self.io), cx, &mut self.partial))?;
            Poll::Ready(Ok(self.take_partial(n, sink)))
        }
    }

    pub(crate) async fn drain(mut self, mut sink: impl FnMut(Line<'_>)) {
        std::future::poll_fn(|cx| {
            for _ in 0..READS_PER_TURN {
                match ready!(self.poll_lines(cx, &mut sink)) {
                    Ok(true) => {}
                    Ok(false) | Err(_) => return Poll::Ready(()),
                }
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    fn take_fresh(&mut self, mut bytes: &[u8], sink: &mut dyn FnMut(Line<'_>)) -> bool {
        if bytes.is_empty() {
            return false;
        }
        while let Some(end) = memchr(b'\n', bytes) {
            let (line, rest) = bytes.split_at(end);
            self.hand_over(line, sink);
            bytes = &rest[1..];
        }
        self.keep(bytes, sink);
        true
    }

    fn take_partial(&mut self, read: usize, sink: &mut dyn FnMut(Line<'_>)) -> bool {
        let buffer = std::mem::take(&mut self.partial);
        if read == 0 {
            self.searched = 0;
            self.hand_over(&buffer, sink);
            put_spare(buffer);
            return false;
        }
        let mut start = 0;
        let mut searched = self.searched;
        while let Some(end) = memchr(b'\n', &buffer[searched..]) {
            self.hand_over(&buffer[start..searched + end], sink);
            start = searched + end + 1;
            searched = start;
        }
        if start == 0 && buffer.len() <= self.limit {
            self.searched = buffer.len();
            self.partial = buffer;
        } else {
            self.keep(&buffer[start..], sink);
            // Shared again, so that the buffer does not stay with its server.
            put_spare(buffer);
        }
        true
    }

    fn keep(&mut self, bytes: &[u8], sink: &mut dyn FnMut(Line<'_>)) {
        self.searched = 0;
        if self.discarding || bytes.is_empty() {
            return;
        }
        if bytes.len() > self.limit {
            self.discarding = true;
            sink(Line::Oversized(&bytes[..bytes.len().min(OVERSIZED_HEAD)]));
            return;
        }
        self.partial.extend_from_slice(bytes);
        self.searched = bytes.len();
    }

    fn hand_over(&mut self, line: &[u8], sink: &mut dyn FnMut(Line<'_>)) {
        if std::mem::take(&mut self.discarding) {
            return;
        }
        if line.len() > self.limit {
            return sink(Line::Oversized(&line[..line.len().min(OVERSIZED_HEAD)]));
        }
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !line.is_empty() {
            sink(Line::Complete(line));
        }
    }
}

fn make_room(partial: &mut Vec<u8>) {
    let wanted = SCRATCH.max(partial.len());
    let is_long = partial.len() >= SCRATCH / 4;
    if is_long && partial.capacity() - partial.len() < wanted {
        let mut spare = SPARE.take();
        if spare.capacity() > partial.capacity() {
            spare.extend_from_slice(partial);
            *partial = spare;
        }
    }
    partial.reserve(wanted);
}

fn put_spare(mut buffer: Vec<u8>) {
    buffer.clear();
    let spare = SPARE.take();
    let is_better = (spare.capacity() + 1..=KEPT_SPARE).contains(&buffer.capacity());
    SPARE.set(if is_better { buffer } else { spare });
}

debug_fields!(
    LineReader,
    it {
        partial: &it.partial.len()
    }
);

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands out its pieces one per read.
    struct Pieces(Vec<Vec<u8>>);

    impl AsyncRead for Pieces {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            if let Some(first) = self.0.first_mut() {
                let n = first.len().min(buf.remaining());
                buf.put_slice(&first[..n]);
                first.drain(..n);
                if first.is_empty() {
                    self.0.remove(0);
                }
            }
            Poll::Ready(Ok(()))
        }
    }

    fn lines(pieces: &[&[u8]], limit: usize) -> Vec<String> {
        let io = Pieces(pieces.iter().map(|p| p.to_vec()).collect());
        let mut reader = LineReader::new(Box::new(io), limit);
        let mut seen = Vec::new();
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut sink = |line: Line<'_>| {
            seen.push(match line {
                Line::Complete(l) => String::from_utf8_lossy(l).into_owned(),
                Line::Oversized(l) => format!("!{}", String::from_utf8_lossy(l)),
            });
        };
        while let Poll::Ready(Ok(true)) = reader.poll_lines(&mut cx, &mut sink) {}
        seen
    }

    #[test]
    fn lines_come_whole_however_they_arrive() {
        let text = b"one\r\ntwo\n\nthree\nfour";
        let expected = ["one", "two", "three", "four"];
        assert_eq!(lines(&[text], 100), expected);
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(lines(&bytes, 100), expected);
        for cut in 1..text.len() {
            let (a, b) = text.split_at(cut);
            assert_eq!(lines(&[a, b], 100), expected, "cut at {cut}");
        }
    }

    #[test]
    fn a_line_over_the_limit_is_reported_once_and_the_next_is_fine() {
        let text = b"0123456789\nok\n";
        for cut in 1..text.len() {
            let (a, b) = text.split_at(cut);
            let seen = lines(&[a, b], 8);
            assert_eq!(seen.len(), 2, "cut at {cut}: {seen:?}");
            assert!(seen[0].starts_with("!01"), "cut at {cut}: {seen:?}");
            assert_eq!(seen[1], "ok", "cut at {cut}");
        }
    }

    #[test]
    fn a_large_line_over_many_reads() {
        let mut text = vec![b'x'; 3 * SCRATCH];
        text.extend_from_slice(b"\ny\n");
        let seen = lines(&[&text], 4 * SCRATCH);
        assert_eq!(seen[0].len(), 3 * SCRATCH);
        assert_eq!(seen[1], "y");
        assert!(lines(&[&text], SCRATCH)[0].starts_with('!'));
    }

    #[test]
    fn the_larger_buffer_is_kept_for_the_next_long_line() {
        for size in [2 * SCRATCH, SCRATCH, KEPT_SPARE + 1, 0] {
            put_spare(Vec::with_capacity(size));
        }
        assert_eq!(SPARE.take().capacity(), 2 * SCRATCH);
    }

    #[test]
    fn an_idle_reader_holds_no_memory() {
        let mut text = vec![b'x'; SCRATCH * 2];
        text.push(b'\n');
        let io = Pieces(vec![text]);
        let mut reader = LineReader::new(Box::new(io), SCRATCH * 4);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        while let Poll::Ready(Ok(true)) = reader.poll_lines(&mut cx, &mut |_| {}) {}
        assert_eq!(reader.partial.capacity(), 0);
    }

    #[test]
    fn what_is_called_during_a_read_may_read_another() {
        let mut outer = LineReader::new(Box::new(&b"outer\nmore\n"[..]), 64);
        let mut seen = Vec::new();
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let read = outer.poll_lines(&mut cx, &mut |line| {
            let mut inner = LineReader::new(Box::new(&b"inner\n"[..]), 64);
            let mut cx = Context::from_waker(std::task::Waker::noop());
            let _ = inner.poll_lines(&mut cx, &mut |line| seen.push(format!("{line:?}")));
            seen.push(format!("{line:?}"));
        });
        assert!(matches!(read, Poll::Ready(Ok(true))));
        assert_eq!(seen.len(), 4, "{seen:?}");
    }
}
