//! waitid(2), by number: sound because only this crate reaps its children.

use std::io;
use std::thread;
use std::time::Duration;

use crate::exit::ExitStatus;

use super::super::Pid;
use super::super::unix::wait;

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
