//! The exits of processes where there is neither pidfd nor kqueue: a thread for
//! each, which looks. Unmeasured: run on no machine of ours.

use std::io;
use std::thread;
use std::time::Duration;

use mcp_lifecycle_core::launch::ExitStatus;

use super::super::Pid;
use super::wait;

/// How often a process is looked at; there is no event that is portable.
const LOOK: Duration = Duration::from_millis(5);

/// There is nothing to start before there is a process.
pub(super) fn start() -> io::Result<()> {
    Ok(())
}

/// Calls `on_exit` on a thread of its own when the process has ended.
pub(super) fn watch(pid: Pid, on_exit: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new()
        .name("mcp-lifecycle-watch".to_owned())
        .spawn(move || {
            until_exit(pid);
            on_exit();
        })
        .map(drop)
}

fn until_exit(pid: Pid) {
    loop {
        match wait::peek(pid) {
            Ok(None) => thread::sleep(LOOK),
            // Not our child.
            Ok(Some(ExitStatus::Unknown)) => break,
            Ok(Some(_)) | Err(_) => return,
        }
    }
    while nix::sys::signal::kill(pid.raw(), None).is_ok() {
        thread::sleep(LOOK);
    }
}
