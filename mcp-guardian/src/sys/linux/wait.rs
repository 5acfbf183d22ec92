//! Looks whether children have ended, and reaps them.

use std::os::fd::BorrowedFd;

use nix::errno::Errno;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};

use crate::exit::ExitStatus;

use super::super::{Pid, uninterrupted};

/// A child, by its pidfd or its pid.
#[derive(Debug, Clone, Copy)]
pub enum Child<'a> {
    Held(BorrowedFd<'a>),
    /// The child is not reaped, so its pid is not reused.
    Numbered(nix::unistd::Pid),
}

/// Returns the exit status of a child that has ended, and leaves it a zombie.
pub(super) fn peek(child: Child<'_>) -> Result<Option<ExitStatus>, Errno> {
    status(waited(child, WaitPidFlag::WNOWAIT))
}

/// Returns whether this is the pid of a child of ours that was not reaped.
pub(super) fn is_child(pid: Pid) -> bool {
    waited(Child::Numbered(pid.raw()), WaitPidFlag::WNOWAIT) != Err(Errno::ECHILD)
}

/// Reaps a child that has ended.
pub(super) fn reap(child: Child<'_>) -> Result<Option<ExitStatus>, Errno> {
    status(waited(child, WaitPidFlag::empty()))
}

/// Returns how a child has ended, if it has. Reaps it, unless `flags` contain WNOWAIT.
pub fn waited(child: Child<'_>, flags: WaitPidFlag) -> Result<WaitStatus, Errno> {
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
        // Our child was reaped elsewhere: it has ended, but the status is lost.
        Err(Errno::ECHILD) => Ok(Some(ExitStatus::Unknown)),
        Err(errno) => Err(errno),
    }
}
