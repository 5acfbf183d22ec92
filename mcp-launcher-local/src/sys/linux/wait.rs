//! Children: whether they have ended, and reaping them.

use nix::errno::Errno;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};

use mcp_lifecycle_core::ExitStatus;

use super::super::Pid;

/// The exit status of a child that has ended, leaving it a zombie.
pub(super) fn peek(id: Id<'_>) -> Result<Option<ExitStatus>, Errno> {
    wait(
        id,
        WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT,
    )
}

/// Whether that number is our child's, which nobody has reaped.
pub(crate) fn is_child(pid: Pid) -> bool {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    waitid(Id::Pid(pid.raw()), flags) != Err(Errno::ECHILD)
}

/// Reaps a child that has ended.
pub(super) fn reap(id: Id<'_>) -> Result<Option<ExitStatus>, Errno> {
    wait(id, WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG)
}

fn wait(id: Id<'_>, flags: WaitPidFlag) -> Result<Option<ExitStatus>, Errno> {
    match waitid(id, flags) {
        Ok(WaitStatus::Exited(_, code)) => Ok(Some(ExitStatus::Code(code))),
        Ok(WaitStatus::Signaled(_, signal, _)) => Ok(Some(ExitStatus::Signal(signal as i32))),
        Ok(_) => Ok(None),
        // Somebody else reaped our child: ended it has, how nobody knows.
        Err(Errno::ECHILD) => Ok(Some(ExitStatus::Unknown)),
        Err(errno) => Err(errno),
    }
}
