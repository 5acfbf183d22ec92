//! The exits of processes: a waiting thread for each.

use std::io;
use std::thread;
use std::time::Duration;

use crate::exit::ExitStatus;

use super::super::Pid;
use super::wait;

/// The polling interval for a process that is not our child; there is no portable event.
const LOOK: Duration = Duration::from_millis(5);

/// Calls `on_exit` on a thread of its own when the process has ended.
pub(super) fn watch(pid: Pid, on_exit: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let until_exit = move || {
        if matches!(wait::ended(pid), Ok(Some(ExitStatus::Unknown))) {
            while nix::sys::signal::kill(pid.raw(), None).is_ok() {
                thread::sleep(LOOK);
            }
        }
        on_exit();
    };
    let thread = thread::Builder::new().name("mcp-lifecycle-watch".to_owned());
    thread.spawn(until_exit).map(drop)
}
