//! Looks whether children have ended, and reaps them.

use std::os::fd::BorrowedFd;

use nix::errno::Errno;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};

use crate::exit::ExitStatus;

use super::super::uninterrupted;

/// A child, by its pidfd or its pid.
#[derive(Debug, Clone, Copy)]
pub enum Child<'a> {
    Held(BorrowedFd<'a>),
    /// The child is not reaped, so its pid is not reused.
    Numbered(nix::unistd::Pid),
}

/// Returns how a child has ended, if it has. Reaps it, unless `flags` contain WNOWAIT.
pub fn waited(child: Child<'_>, flags: WaitPidFlag) -> Result<WaitStatus, Errno> {
    let flags = flags | WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG;
    uninterrupted(|| match child {
        Child::Held(pidfd) => waitid(Id::PIDFd(pidfd), flags),
        Child::Numbered(pid) => waitid(Id::Pid(pid), flags),
    })
}

/// Does the same, also for a child that was reaped elsewhere: its status is lost.
pub(super) fn status(child: Child<'_>, flags: WaitPidFlag) -> Result<Option<ExitStatus>, Errno> {
    match waited(child, flags) {
        Ok(WaitStatus::Exited(_, code)) => Ok(Some(ExitStatus::Code(code))),
        Ok(WaitStatus::Signaled(_, signal, _)) => Ok(Some(ExitStatus::Signal(signal as i32))),
        Ok(_) => Ok(None),
        Err(Errno::ECHILD) => Ok(Some(ExitStatus::Unknown)),
        Err(errno) => Err(errno),
    }
}
