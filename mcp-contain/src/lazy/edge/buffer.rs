//! Bytes in transit in one direction.

/// Size of a read, and limit of queued bytes before reading stops.
pub(super) const ROOM: usize = 64 << 10;

/// Maximum length of a line. A longer one ends the relay.
pub(super) const LINE_MAX: usize = 64 << 20;

/// Memory that an empty queue keeps: enough for messages of 1 MiB, which would cost more in page
/// faults than in copies.
const KEPT: usize = 2 << 20;

#[derive(Debug, Default)]
pub(super) struct Buffer {
    data: Vec<u8>,
    start: usize,
}

impl Buffer {
    pub(super) fn bytes(&self) -> &[u8] {
        self.data.get(self.start..).unwrap_or_default()
    }

    pub(super) fn len(&self) -> usize {
        self.bytes().len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes().is_empty()
    }

    pub(super) fn room(&mut self) -> &mut Vec<u8> {
        self.compact();
        self.data.reserve(ROOM);
        &mut self.data
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.compact();
        self.data.extend_from_slice(bytes);
    }

    pub(super) fn consume(&mut self, len: usize) {
        self.start += len;
        if self.is_empty() {
            self.start = 0;
            self.data.clear();
            if self.data.capacity() > KEPT {
                self.release();
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.consume(self.len());
    }

    pub(super) fn release(&mut self) {
        if self.is_empty() {
            *self = Self::default();
        }
    }

    /// Moves the bytes to the front, where that costs less than has been consumed.
    fn compact(&mut self) {
        if self.start > self.len() {
            self.data.drain(..self.start);
            self.start = 0;
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Lines {
    pub(super) buffer: Buffer,
    searched: usize,
}

impl Lines {
    pub(super) fn front(&self, len: usize) -> &[u8] {
        self.buffer.bytes().get(..len).unwrap_or_default()
    }

    pub(super) fn is_oversized(&self) -> bool {
        self.searched > LINE_MAX
    }

    /// Returns the length of the line at the front. At the end of the stream, the rest is one.
    pub(super) fn next(&mut self, is_end: bool) -> Option<usize> {
        let bytes = self.buffer.bytes();
        let unseen = bytes.get(self.searched..).unwrap_or_default();
        let end = memchr::memchr(b'\n', unseen).map(|at| self.searched + at + 1);
        let rest = Some(bytes.len()).filter(|len| is_end && *len > 0);
        let line = end.or(rest);
        self.searched = line.map_or(bytes.len(), |_| 0);
        line
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn lines_keep_their_bytes(chunks in prop::collection::vec("[a\n]{0,9}", 0..40)) {
            let mut lines = Lines::default();
            let mut seen = Vec::new();
            let all = chunks.concat();
            for (number, chunk) in chunks.iter().enumerate() {
                lines.buffer.push(chunk.as_bytes());
                let is_end = number + 1 == chunks.len();
                while let Some(len) = lines.next(is_end) {
                    seen.push(String::from_utf8(lines.buffer.bytes()[..len].to_vec()).unwrap());
                    lines.buffer.consume(len);
                }
            }
            let expected: Vec<_> = all.split_inclusive('\n').map(str::to_owned).collect();
            prop_assert_eq!(seen, expected);
        }
    }

    #[test]
    fn an_oversized_line_is_noticed_and_its_memory_given_back() {
        let mut lines = Lines::default();
        while !lines.is_oversized() {
            assert!(lines.buffer.len() <= LINE_MAX);
            lines.buffer.push(&[b'x'; ROOM]);
            assert_eq!(lines.next(false), None);
        }
        assert_eq!(lines.next(true), Some(LINE_MAX + ROOM));
        lines.buffer.clear();
        assert!(lines.buffer.data.capacity() <= KEPT, "given back");
        lines.buffer.release();
        assert_eq!(lines.buffer.data.capacity(), 0);
    }
}
