//! Looks whether children have ended, and reaps them.

use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::process;

use nix::errno::Errno;
use nix::sys::wait::WaitPidFlag;

use crate::exit::ExitStatus;

use super::super::unix;

/// A child, by its pidfd or its pid.
#[derive(Debug, Clone, Copy)]
pub enum Child<'a> {
    Held(BorrowedFd<'a>),
    /// The child is not reaped, so its pid is not reused.
    Numbered(nix::unistd::Pid),
}

/// Returns how a child has ended, if it has. Reaps it, unless `flags` contain WNOWAIT.
pub fn waited(child: Child<'_>, flags: WaitPidFlag) -> Result<Option<process::ExitStatus>, Errno> {
    let flags = flags | WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG;
    let (kind, id) = match child {
        Child::Held(pidfd) => (libc::P_PIDFD, pidfd.as_raw_fd()),
        Child::Numbered(pid) => (libc::P_PID, pid.as_raw()),
    };
    unix::wait_for(kind, id.cast_unsigned(), flags.bits())
}

/// Does the same, also for a child that was reaped elsewhere: its status is lost.
pub(super) fn status(child: Child<'_>, flags: WaitPidFlag) -> Result<Option<ExitStatus>, Errno> {
    unix::or_lost(waited(child, flags))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;
    use std::process::Command;
    use std::time::Duration;

    use super::super::super::{Pid, ends_within, hold};
    use super::*;

    #[test]
    #[expect(clippy::zombie_processes, reason = "it is reaped by what is tested")]
    fn a_death_by_any_signal_is_an_end() {
        for signal in [9, 34, 64] {
            let kill = format!("ulimit -c 0; kill -{signal} $$");
            let child = Command::new("sh").args(["-c", &kill]).spawn().unwrap();
            let pidfd = hold(Pid::new(child.id().into()).unwrap()).unwrap();
            assert!(ends_within(pidfd.as_fd(), Duration::from_secs(60)).unwrap());
            let look = || status(Child::Held(pidfd.as_fd()), WaitPidFlag::WNOWAIT);
            assert_eq!(look(), Ok(Some(ExitStatus::Signal(signal))));
            let reaped = status(Child::Held(pidfd.as_fd()), WaitPidFlag::empty());
            assert_eq!(reaped, Ok(Some(ExitStatus::Signal(signal))));
            assert_eq!(look(), Ok(Some(ExitStatus::Unknown)));
        }
    }
}
