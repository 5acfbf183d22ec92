//! Children: whether they have ended, and reaping them.

use std::os::fd::BorrowedFd;

use nix::errno::Errno;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};

use mcp_lifecycle_core::launch::ExitStatus;

use super::super::{Pid, uninterrupted};

/// A child, as whoever asks knows it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Child<'a> {
    Held(BorrowedFd<'a>),
    /// Not reaped, so that the number is its own.
    Numbered(nix::unistd::Pid),
}

/// The exit status of a child that has ended, leaving it a zombie.
pub(super) fn peek(child: Child<'_>) -> Result<Option<ExitStatus>, Errno> {
    status(waited(child, WaitPidFlag::WNOWAIT))
}

/// Returns whether that number is our child's, which nobody has reaped.
pub(super) fn is_child(pid: Pid) -> bool {
    waited(Child::Numbered(pid.raw()), WaitPidFlag::WNOWAIT) != Err(Errno::ECHILD)
}

/// Reaps a child that has ended.
pub(super) fn reap(child: Child<'_>) -> Result<Option<ExitStatus>, Errno> {
    status(waited(child, WaitPidFlag::empty()))
}

/// How a child has ended, if it has; reaped, unless `flags` say WNOWAIT.
pub(crate) fn waited(child: Child<'_>, flags: WaitPidFlag) -> Result<WaitStatus, Errno> {
    let flags = flags | WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG;
    uninterrupted(|| match child {
        Child::Held(pidfd) => waitid(Id::PIDFd(pidfd), flags),
        Child::Numbered(pid) => waitid(Id::Pid(pid), flags),
    })
}

fn status(waited: Result<WaitStatus, Errno>) -> Result<Option<ExitStatus>, Errno> {
    match waited {
        Ok(WaitStatus::Exited(_, code)) => Ok(Some(ExitStatus::Code(code))),
        Ok(WaitStatus::Signaled(_, signal, _)) => Ok(Some(ExitStatus::Signal(signal as i32))),
        Ok(_) => Ok(None),
        // Somebody else reaped our child: ended it has, how nobody knows.
        Err(Errno::ECHILD) => Ok(Some(ExitStatus::Unknown)),
        Err(errno) => Err(errno),
    }
}
