//! Other Unix: a thread per server waits for its exit, and the group is
//! reached by number for as long as its leader has not been reaped.
//!
//! Written, and compiled for no machine of ours so far: unmeasured.

use std::io;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::wait::{Id, WaitPidFlag, waitid};

use mcp_lifecycle_core::ExitStatus;

use super::{Member, Pid, Signal, unix};

/// A child of ours that leads a process group.
#[derive(Debug)]
pub(crate) struct Leader {
    pid: Pid,
}

/// How often a process that is not our child is looked at; there is no event
/// for it that is portable.
const LOOK: Duration = Duration::from_millis(5);

impl Leader {
    pub(crate) fn new(pid: Pid) -> io::Result<Self> {
        Ok(Self { pid })
    }

    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    pub(crate) fn peek(&self) -> io::Result<Option<ExitStatus>> {
        Ok(unix::peek(Id::Pid(self.pid.raw()))?)
    }

    pub(crate) fn reap(&self) {
        let _ = unix::reap(Id::Pid(self.pid.raw()));
    }

    pub(crate) fn reaches_group(&self) -> bool {
        false
    }

    pub(crate) fn signal_group(&self, signal: Signal, reaped: bool) -> io::Result<()> {
        if reaped {
            return Ok(());
        }
        Ok(unix::signal_group(self.pid, signal)?)
    }

    pub(crate) fn group_is_empty(&self) -> bool {
        unix::group_is_empty(self.pid)
    }

    pub(crate) fn exit_event(&self) -> io::Result<ExitEvent> {
        Ok(ExitEvent)
    }

    pub(crate) fn watch(&self, on_exit: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let pid = self.pid;
        thread::Builder::new()
            .name("mcp-lifecycle-watch".to_owned())
            .spawn(move || {
                let exit = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
                while waitid(Id::Pid(pid.raw()), exit) == Err(Errno::EINTR) {}
                on_exit();
            })
            .map(drop)
    }
}

/// There is none that is portable: the thread has to do.
#[derive(Debug)]
pub(crate) struct ExitEvent;

impl ExitEvent {
    pub(crate) async fn happened(&self) {
        std::future::pending().await
    }
}

pub(crate) fn watch_process(
    pid: Pid,
    _still: impl FnOnce() -> bool,
    on_exit: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    thread::Builder::new()
        .name("mcp-lifecycle-watch".to_owned())
        .spawn(move || {
            while nix::sys::signal::kill(pid.raw(), None).is_ok() {
                thread::park_timeout(LOOK);
            }
            on_exit();
        })
        .map(drop)
}

/// Nobody tells who is in a group; whether it is empty is asked of the group.
pub(crate) fn members_of_group(_group: Pid) -> io::Result<Vec<Member>> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn start_time(_pid: Pid) -> Option<u64> {
    None
}

/// Without it a host has no identity, and its servers carry none.
pub(crate) fn start_time_of(_pid: u32) -> Option<u64> {
    None
}
