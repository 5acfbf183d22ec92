//! A running guardian, as the host holds it.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv, send};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use super::protocol::{MESSAGE_MAX, Report, Request};

/// A guardian and, through it, a server.
///
/// There is no way to signal the guardian, on purpose: killing it would set free what it guards. Dropping the handle closes the control socket, and
/// the guardian ends the server; but it also gives up the only way to reap the guardian, which is then a zombie until the host ends. So keep it
/// until [`try_reap`](Self::try_reap) has succeeded.
#[derive(Debug)]
#[must_use = "dropping the handle kills the server"]
pub struct GuardianHandle {
    pid: Pid,
    pidfd: OwnedFd,
    control: OwnedFd,
}

/// What [`GuardianHandle::receive`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// The next report.
    Report(Report<'a>),
    /// None at present. Wait until [`GuardianHandle::control`] is readable.
    Nothing,
    /// There will be no more. Without a last report ([`Report::Gone`] or [`Report::ExecFailed`]) before, the guardian was killed.
    Closed,
}

impl GuardianHandle {
    pub(super) fn new(pid: Pid, pidfd: OwnedFd, control: OwnedFd) -> Self {
        Self {
            pid,
            pidfd,
            control,
        }
    }

    /// Process id of the guardian, for display.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid.as_raw().unsigned_abs()
    }

    /// Readable when the guardian has exited. To wait with, never to signal with.
    #[must_use]
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// The socket, non-blocking. Readable when there is something to [`receive`](Self::receive).
    #[must_use]
    pub fn control(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    /// Asks for something, without waiting.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::BrokenPipe`] if the guardian has exited: its last reports tell the rest.
    pub fn send(&self, request: Request) -> io::Result<()> {
        let message = request.encode();
        let attempt = || send(self.control.as_raw_fd(), &message, MsgFlags::MSG_NOSIGNAL);
        // As in `receive`, the first call after the guardian's exit may be told of an unread request.
        let sent = attempt().or_else(|errno| {
            if errno == Errno::ECONNRESET {
                attempt()
            } else {
                Err(errno)
            }
        });
        sent.map(drop).map_err(io::Error::from)
    }

    /// The next report, if there is one.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidData`] for a message that is no report, and what reading a socket can fail with.
    pub fn receive<'b>(&self, buffer: &'b mut [u8; MESSAGE_MAX]) -> io::Result<Received<'b>> {
        let len = loop {
            match recv(self.control.as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(0) => return Ok(Received::Closed),
                Ok(len) => break len,
                Err(Errno::EAGAIN) => return Ok(Received::Nothing),
                // The guardian exited with a request unread. Said once, and before the reports that are still queued.
                Err(Errno::ECONNRESET | Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        };
        let report = buffer.get(..len).and_then(Report::decode);
        report.map(Received::Report).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "not a report of the guardian")
        })
    }

    /// Reaps the guardian if it has exited. To be called again until it has, and not after.
    ///
    /// Its status mirrors the server's: see `docs/guardian.md`. A signal means that the guardian itself was killed.
    ///
    /// # Errors
    ///
    /// ECHILD if something else in the host has reaped it.
    pub fn try_reap(&self) -> io::Result<Option<ExitStatus>> {
        match waitid(
            Id::PIDFd(self.pidfd.as_fd()),
            WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG,
        )? {
            WaitStatus::Exited(_, code) => Ok(Some(ExitStatus::from_raw((code & 0xff) << 8))),
            WaitStatus::Signaled(_, signal, core) => Ok(Some(ExitStatus::from_raw(
                signal as i32 | if core { 0x80 } else { 0 },
            ))),
            _ => Ok(None),
        }
    }
}
