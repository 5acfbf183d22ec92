//! waitid(2), by number: sound because only this crate reaps its children.

use std::io;
use std::mem::MaybeUninit;
use std::thread;
use std::time::Duration;

use libc::c_int;
use nix::errno::Errno;

use crate::exit::ExitStatus;

use super::super::{Pid, uninterrupted};

/// Returns the exit status of a child that has ended, and leaves it a zombie.
pub(super) fn peek(pid: Pid) -> io::Result<Option<ExitStatus>> {
    Ok(wait(pid, libc::WEXITED | libc::WNOHANG | libc::WNOWAIT)?)
}

/// Waits until a child has ended, and leaves it a zombie.
pub(super) fn ended(pid: Pid) -> io::Result<Option<ExitStatus>> {
    Ok(wait(pid, libc::WEXITED | libc::WNOWAIT)?)
}

/// Calls `on_exit` on a thread of its own when the process has ended.
pub(super) fn watch(pid: Pid, on_exit: impl FnOnce() + Send + 'static) -> io::Result<()> {
    /// The polling interval for a process that is not our child; there is no portable event.
    const LOOK: Duration = Duration::from_millis(5);
    let until_exit = move || {
        if matches!(ended(pid), Ok(Some(ExitStatus::Unknown))) {
            while nix::sys::signal::kill(pid.raw(), None).is_ok() {
                thread::sleep(LOOK);
            }
        }
        on_exit();
    };
    let thread = thread::Builder::new().name("mcp-lifecycle-watch".to_owned());
    thread.spawn(until_exit).map(drop)
}

/// Reaps a child that has ended.
pub(super) fn reap(pid: Pid) -> io::Result<Option<ExitStatus>> {
    Ok(wait(pid, libc::WEXITED | libc::WNOHANG)?)
}

fn wait(pid: Pid, flags: c_int) -> Result<Option<ExitStatus>, Errno> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let waited = uninterrupted(|| {
        let pid = pid.as_u32() as libc::id_t;
        // SAFETY: `info` has room for what is written, and the rest are numbers.
        Errno::result(unsafe { libc::waitid(libc::P_PID, pid, info.as_mut_ptr(), flags) })
    });
    match waited {
        Ok(_) => {}
        // Our child was reaped elsewhere: it has ended, but the status is lost.
        Err(Errno::ECHILD) => return Ok(Some(ExitStatus::Unknown)),
        Err(errno) => return Err(errno),
    }
    // SAFETY: zeroes are valid for it, and so is what the kernel wrote.
    let info = unsafe { info.assume_init() };
    // SAFETY: waitid fills in the fields of SIGCHLD, or leaves the zeroes.
    let pid = unsafe { info.si_pid() };
    // SAFETY: as above.
    let status = unsafe { info.si_status() };
    Ok(match (pid, info.si_code) {
        (0, _) => None,
        (_, libc::CLD_EXITED) => Some(ExitStatus::Code(status)),
        (_, libc::CLD_KILLED | libc::CLD_DUMPED) => Some(ExitStatus::Signal(status)),
        _ => None,
    })
}
