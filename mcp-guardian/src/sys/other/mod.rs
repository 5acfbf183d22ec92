//! Other Unix than Linux: the group is reached by number until its leader is reaped, and a pipe
//! watcher ends it when the host dies. Best effort, and unmeasured: compiled for macOS and FreeBSD,
//! and run on no machine of ours except for the pipe watcher and the parser of ps(1).

mod members;
mod wait;
mod wakes;

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, PoisonError};

use crate::exit::ExitStatus;

pub use self::members::members_of_group;
pub use self::wakes::Wakes;
use super::lifeline::Lifeline;
use super::listing;
use super::{Pid, Signal, unix};

/// A child of ours that leads a process group.
#[derive(Debug)]
pub struct Leader {
    pid: Pid,
    /// Removed from the watcher's list before the leader is reaped.
    lifeline: Mutex<Option<Lifeline>>,
}

/// Always succeeds: a child has a thread of its own.
pub fn can_lead() -> io::Result<()> {
    Ok(())
}

impl Leader {
    pub fn new(pid: Pid) -> io::Result<Self> {
        Ok(Self {
            pid,
            lifeline: Mutex::new(Some(Lifeline::tie(pid)?)),
        })
    }

    pub fn pid(&self) -> Pid {
        self.pid
    }

    pub fn peek(&self) -> io::Result<Option<ExitStatus>> {
        wait::ended(self.pid)
    }

    pub fn reap(&self) {
        let lifeline = self.lifeline.lock();
        drop(lifeline.unwrap_or_else(PoisonError::into_inner).take());
        if let Err(error) = wait::reap(self.pid) {
            let pid = self.pid.as_u32();
            crate::logged!(debug, pid, %error, "a server could not be reaped");
        }
    }

    pub fn reaches_group(&self) -> bool {
        false
    }

    /// Returns whether a signal to the group reaches its members and no others.
    pub fn reaches_members(&self) -> bool {
        true
    }

    pub fn signal_group(&self, signal: Signal, reaped: bool) -> io::Result<()> {
        super::not_forked()?;
        if reaped {
            return Ok(());
        }
        Ok(unix::signal_group(self.pid, signal)?)
    }

    pub fn group_is_empty(&self) -> bool {
        unix::group_is_empty(self.pid)
    }

    /// Returns `false`: macOS refuses a signal to a group of zombies as well, so the listing decides.
    pub fn group_is_anothers(&self) -> bool {
        false
    }

    pub fn watch(&self, on_exit: impl FnOnce() + Send + 'static) -> io::Result<()> {
        wait::watch(self.pid, on_exit)
    }
}

pub fn watch_process(
    pid: Pid,
    mut still: impl FnMut() -> io::Result<bool>,
    on_exit: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    if !still()? {
        on_exit();
        return Ok(());
    }
    wait::watch(pid, on_exit)
}

/// Sends SIGKILL to the group of a child without an owner, and returns whether it was sent.
pub fn kill_group_of_child(pid: Pid) -> bool {
    let is_child = !matches!(unix::peek(pid), Ok(Some(ExitStatus::Unknown)));
    is_child && unix::signal_group(pid, Signal::Kill).is_ok()
}

/// Not known: no portable call returns it.
pub fn start_time(_pid: Pid) -> Option<u64> {
    None
}

/// Returns whether this error of exec means that the file cannot be executed.
pub fn is_not_executable(errno: i32) -> bool {
    matches!(errno, libc::ENOENT | libc::EACCES | libc::ENOEXEC)
}

/// Always an error: pipes have the size that the system gives them.
pub fn set_pipe_size(_pipe: BorrowedFd<'_>, _bytes: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
