//! A non-blocking stream of the host or the server, and the bytes in transit.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc::O_NONBLOCK;
use nix::sys::socket::{MsgFlags, send};
use rustix::buffer::spare_capacity;

/// Maximum size of a write that may block: a writable pipe has room for it.
const PIPE_BUF: usize = 4096;

/// A descriptor with its way of non-blocking access. The host's descriptors keep their flags, which
/// other processes share.
#[derive(Debug)]
pub(super) struct Stream {
    file: File,
    way: Way,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    NonBlocking,
    Socket,
    Careful,
}

impl Stream {
    pub(super) fn standard(fd: BorrowedFd<'_>, is_input: bool) -> io::Result<Self> {
        let file = File::from(fd.try_clone_to_owned()?);
        let kind = file.metadata()?.file_type();
        if kind.is_fifo() {
            // Reopens the same pipe with its own flags.
            let path = format!("/proc/thread-self/fd/{}", fd.as_raw_fd());
            let mut options = OpenOptions::new();
            let options = options.read(is_input).write(!is_input);
            if let Ok(file) = options.custom_flags(O_NONBLOCK).open(path) {
                let way = Way::NonBlocking;
                return Ok(Self { file, way });
            }
        }
        let way = match kind.is_socket() {
            true => Way::Socket,
            false => Way::Careful,
        };
        Ok(Self { file, way })
    }

    pub(super) fn pipe(end: OwnedFd) -> io::Result<Self> {
        fcntl(&end, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(Self {
            file: end.into(),
            way: Way::NonBlocking,
        })
    }

    pub(super) fn read(&mut self, into: &mut Vec<u8>) -> io::Result<usize> {
        Ok(rustix::io::read(&self.file, spare_capacity(into))?)
    }

    pub(super) fn unread(&self) -> u64 {
        rustix::io::ioctl_fionread(&self.file).unwrap_or_default()
    }

    /// Writes as much as possible, after `poll` reported room.
    pub(super) fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match self.way {
            Way::Socket => {
                let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
                Ok(send(self.file.as_raw_fd(), from, flags)?)
            }
            Way::NonBlocking => self.file.write(from),
            Way::Careful => self.file.write(&from[..from.len().min(PIPE_BUF)]),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

pub(super) fn is_patience(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

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

    /// Returns the length of the line at the front. At the end of the stream, the rest is completed:
    /// lines of the relay or of a successor may follow.
    pub(super) fn next(&mut self, is_end: bool) -> Option<usize> {
        if is_end && self.buffer.bytes().last().is_some_and(|it| *it != b'\n') {
            self.buffer.push(b"\n");
        }
        let bytes = self.buffer.bytes();
        let unseen = bytes.get(self.searched..).unwrap_or_default();
        let line = memchr::memchr(b'\n', unseen).map(|at| self.searched + at + 1);
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
            let expected: Vec<_> = all.lines().map(|line| format!("{line}\n")).collect();
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
        assert_eq!(lines.next(true), Some(LINE_MAX + ROOM + 1));
        lines.buffer.clear();
        assert!(lines.buffer.data.capacity() <= KEPT, "given back");
        lines.buffer.release();
        assert_eq!(lines.buffer.data.capacity(), 0);
    }
}
