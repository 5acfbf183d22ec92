//! A stream of the host, or of the server, that is never waited for.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc::O_NONBLOCK;
use nix::sys::socket::{MsgFlags, recv, send};

/// The most that a write that may block takes: a pipe that can be written has room for it.
const PIPE_BUF: usize = 4096;

/// A descriptor, and how it is read or written without waiting. That of a host keeps its
/// flags: they belong to all who share it.
#[derive(Debug)]
pub(super) struct Stream {
    file: File,
    way: Way,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Ours alone, and it does not block.
    NonBlocking,
    Socket,
    /// Only after `poll`, and not much at a time.
    Careful,
}

impl Stream {
    /// One of the standard streams of this process.
    pub(super) fn standard(fd: BorrowedFd<'_>, is_input: bool) -> io::Result<Self> {
        let file = File::from(fd.try_clone_to_owned()?);
        let kind = file.metadata()?.file_type();
        if kind.is_socket() {
            return Ok(Self {
                file,
                way: Way::Socket,
            });
        }
        if kind.is_fifo() {
            // The same pipe by a description of its own.
            let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
            let mut options = OpenOptions::new();
            let opened = options
                .read(is_input)
                .write(!is_input)
                .custom_flags(O_NONBLOCK)
                .open(path);
            if let Ok(file) = opened {
                return Ok(Self {
                    file,
                    way: Way::NonBlocking,
                });
            }
        }
        Ok(Self {
            file,
            way: Way::Careful,
        })
    }

    /// This process's end of a pipe.
    pub(super) fn pipe(end: OwnedFd) -> io::Result<Self> {
        fcntl(&end, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(Self {
            file: end.into(),
            way: Way::NonBlocking,
        })
    }

    /// Reads what is there. `WouldBlock` if that is nothing, 0 at the end.
    pub(super) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.way {
            Way::Socket => Ok(recv(self.file.as_raw_fd(), into, MsgFlags::MSG_DONTWAIT)?),
            Way::NonBlocking | Way::Careful => self.file.read(into),
        }
    }

    /// The number of bytes in it that were written and not read; 0 where nobody can say.
    pub(super) fn unread(&self) -> u64 {
        rustix::io::ioctl_fionread(&self.file).unwrap_or_default()
    }

    /// Writes what there is room for, when `poll` has said that there is some.
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

/// Whether an error says that there is nothing to do yet.
pub(super) fn is_patience(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}
