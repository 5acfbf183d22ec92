//! Bytes on their way in one direction.

use std::ops::Range;

/// How much is read at a time, and how much may wait before reading stops.
pub(super) const ROOM: usize = 64 << 10;

/// A longer line is passed on without being looked at.
pub(super) const LINE_MAX: usize = 16 << 20;

/// The memory that an empty queue keeps: enough for messages of 1 MiB, which would cost more page faults than copies.
const KEPT: usize = 2 << 20;

/// A queue of bytes.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    data: Vec<u8>,
    live: Range<usize>,
}

impl Buffer {
    pub(super) fn bytes(&self) -> &[u8] {
        self.data.get(self.live.clone()).unwrap_or_default()
    }

    pub(super) fn len(&self) -> usize {
        self.live.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// Room for as much as is read at a time; [`filled`](Self::filled) says how much was.
    pub(super) fn room(&mut self) -> &mut [u8] {
        self.make_room(ROOM);
        &mut self.data[self.live.end..]
    }

    pub(super) fn filled(&mut self, len: usize) {
        self.live.end += len;
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.make_room(bytes.len());
        let end = self.live.end + bytes.len();
        self.data[self.live.end..end].copy_from_slice(bytes);
        self.live.end = end;
    }

    pub(super) fn consume(&mut self, len: usize) {
        self.live.start += len;
        if self.live.is_empty() {
            self.live = 0..0;
            if self.data.len() > KEPT {
                self.data = Vec::new();
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.consume(self.len());
    }

    /// Gives the memory of an empty queue back.
    pub(super) fn release(&mut self) {
        if self.is_empty() {
            self.data = Vec::new();
        }
    }

    fn make_room(&mut self, len: usize) {
        if self.data.len() - self.live.end >= len {
            return;
        }
        if self.live.start > 0 {
            self.data.copy_within(self.live.clone(), 0);
            self.live = 0..self.live.len();
        }
        let needed = self.live.end + len;
        if needed > self.data.len() {
            let size = needed.max(self.data.len().saturating_mul(2).min(LINE_MAX + 2 * ROOM));
            self.data.resize(size, 0);
        }
    }
}

/// The lines of a stream.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pub(super) buffer: Buffer,
    /// How much of the buffer has no end of a line in it.
    searched: usize,
    /// In the middle of a line that is too long.
    is_long: bool,
}

/// The front of a stream, with its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    /// A line with its end.
    Line(usize),
    /// The first part of a line that is too long.
    Long(usize),
    /// A further part of it.
    More(usize),
}

impl Lines {
    /// Returns whether the last piece was part of a line, and its end did not follow.
    pub(super) fn is_cut(&self) -> bool {
        self.is_long
    }

    /// The piece at the front, to be consumed; `None` if more has to be read first. At
    /// the end of the stream, what is left is a line.
    pub(super) fn next(&mut self, is_end: bool) -> Option<Piece> {
        let bytes = self.buffer.bytes();
        let unseen = bytes.get(self.searched..).unwrap_or_default();
        let end = memchr::memchr(b'\n', unseen).map(|at| self.searched + at + 1);
        let was_long = self.is_long;
        let len = match end {
            Some(end) => end,
            None if bytes.is_empty() => return None,
            None if was_long || is_end || bytes.len() > LINE_MAX => bytes.len(),
            None => {
                self.searched = bytes.len();
                return None;
            }
        };
        self.searched = 0;
        self.is_long = end.is_none() && !is_end;
        Some(match (was_long, self.is_long) {
            (true, _) => Piece::More(len),
            (false, true) => Piece::Long(len),
            (false, false) => Piece::Line(len),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn lines_are_as_they_came(chunks in prop::collection::vec("[a\n]{0,9}", 0..40)) {
            let mut lines = Lines::default();
            let mut seen = Vec::new();
            let all = chunks.concat();
            for (number, chunk) in chunks.iter().enumerate() {
                lines.buffer.room()[..chunk.len()].copy_from_slice(chunk.as_bytes());
                lines.buffer.filled(chunk.len());
                let is_end = number + 1 == chunks.len();
                while let Some(piece) = lines.next(is_end) {
                    let Piece::Line(len) = piece else { panic!("{piece:?}") };
                    seen.push(String::from_utf8(lines.buffer.bytes()[..len].to_vec()).unwrap());
                    lines.buffer.consume(len);
                }
            }
            let expected: Vec<_> = all.split_inclusive('\n').map(str::to_owned).collect();
            prop_assert_eq!(seen, expected);
        }
    }

    #[test]
    fn a_line_that_is_too_long_comes_in_parts_and_the_next_is_a_line() {
        let mut lines = Lines::default();
        let mut left = LINE_MAX + 3 * ROOM;
        let mut pieces = Vec::new();
        while left > 0 {
            let len = left.min(ROOM);
            lines.buffer.room()[..len].fill(b'x');
            lines.buffer.filled(len);
            left -= len;
            while let Some(piece) = lines.next(false) {
                pieces.push(piece);
                lines.buffer.clear();
            }
        }
        lines.buffer.push(b"x\nab\n");
        for (expected, len) in [(Piece::More(2), 2), (Piece::Line(3), 3)] {
            assert_eq!(lines.next(false), Some(expected));
            lines.buffer.consume(len);
        }
        assert_eq!(lines.next(true), None);
        assert_eq!(pieces[0], Piece::Long(LINE_MAX + ROOM));
        assert_eq!(pieces[1..], [Piece::More(ROOM), Piece::More(ROOM)]);
        assert!(lines.buffer.data.len() <= KEPT, "given back");
        lines.buffer.release();
        assert_eq!(lines.buffer.data.capacity(), 0);
    }
}
