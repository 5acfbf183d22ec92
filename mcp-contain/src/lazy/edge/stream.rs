//! A non-blocking stream of the host or the server.

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

    /// Reads available data. Returns its length, 0 at the end.
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
