//! A server's own process, which leads a process group.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::signal::killpg;
use nix::sys::wait::WaitPidFlag;

use crate::exit::ExitStatus;

use super::super::watch::{self, once};
use super::super::{self as sys, Pid, Signal, reserve, unix};
use super::pidfd::{group_flag_works, has_pidfds, hold, pidfd_signal_alone, pidfd_signal_group};
use super::wait::{Child, status, waited};

/// A child of ours that leads a process group, held by a pidfd.
#[derive(Debug)]
pub struct Leader {
    pid: Pid,
    pidfd: Arc<OwnedFd>,
}

/// Returns an error if a child could not be held and watched; called before there is one.
pub fn can_lead() -> io::Result<()> {
    watch::start()?;
    reserve::keep();
    group_flag_works();
    has_pidfds()
}

/// Sends SIGKILL to the group of a child without an owner. Returns whether all members were reached.
pub fn kill_group_of_child(pid: Pid) -> bool {
    let leader = reserve::with(|| Leader::new(pid));
    // Checked after it was held.
    let child = Child::Numbered(pid.raw());
    let is_child = waited(child, WaitPidFlag::WNOWAIT) != Err(Errno::ECHILD);
    match leader {
        Ok(leader) if is_child => {
            leader.signal_group(Signal::Kill, false).is_ok() && leader.reaches_members()
        }
        Err(_) if is_child && !unix::children_vanish() => {
            unix::signal_group(pid, Signal::Kill).is_ok()
        }
        _ => false,
    }
}

impl Leader {
    pub fn new(pid: Pid) -> io::Result<Self> {
        Ok(Self {
            pid,
            pidfd: Arc::new(hold(pid)?),
        })
    }

    pub fn pid(&self) -> Pid {
        self.pid
    }

    fn child(&self) -> Child<'_> {
        Child::Held(self.pidfd.as_fd())
    }

    /// Returns how it ended, if it has; leaves it a zombie.
    pub fn peek(&self) -> io::Result<Option<ExitStatus>> {
        Ok(status(self.child(), WaitPidFlag::WNOWAIT)?)
    }

    pub fn reap(&self) {
        if let Err(error) = status(self.child(), WaitPidFlag::empty()) {
            let pid = self.pid.as_u32();
            crate::logged!(debug, pid, %error, "a server could not be reaped");
        }
    }

    /// Returns whether the pidfd reaches the group, also after its leader was reaped.
    pub fn reaches_group(&self) -> bool {
        group_flag_works()
    }

    /// Signals the whole group. `reaped`: the leader was reaped, so its pid may have been reused.
    pub fn signal_group(&self, signal: Signal, reaped: bool) -> io::Result<()> {
        sys::not_forked()?;
        match self.reaches_group() {
            false if reaped => Ok(()),
            false => self.signal_by_number(signal),
            true => match self.send(signal, pidfd_signal_group) {
                Err(_) if !reaped => self.signal_by_number(signal),
                sent => sent,
            },
        }
    }

    /// Signals the group by its number or, where that may have been reused, the leader alone.
    fn signal_by_number(&self, signal: Signal) -> io::Result<()> {
        match self.keeps_number() {
            true => Ok(unix::signal_group(self.pid, signal)?),
            false => self.send(signal, pidfd_signal_alone),
        }
    }

    fn send(&self, signal: Signal, way: fn(&OwnedFd, i32) -> Result<(), Errno>) -> io::Result<()> {
        let mut all = signal.all().iter();
        all.try_for_each(|signal| match way(&self.pidfd, *signal as i32) {
            Ok(()) | Err(Errno::ESRCH) => Ok(()),
            Err(errno) => Err(errno.into()),
        })
    }

    /// Returns whether a signal to the group reaches its members and no others.
    pub fn reaches_members(&self) -> bool {
        self.reaches_group() || self.keeps_number()
    }

    /// Returns whether its pid cannot be reused until this crate reaps it.
    fn keeps_number(&self) -> bool {
        let child = waited(self.child(), WaitPidFlag::WNOWAIT);
        !unix::children_vanish() && child != Err(Errno::ECHILD)
    }

    pub fn group_is_empty(&self) -> bool {
        if self.reaches_group() {
            pidfd_signal_group(&self.pidfd, 0) == Err(Errno::ESRCH)
        } else {
            unix::group_is_empty(self.pid)
        }
    }

    /// Returns whether the group has members, and all of them are another user's.
    pub fn group_is_anothers(&self) -> bool {
        let asked = match self.reaches_group() {
            true => pidfd_signal_group(&self.pidfd, 0),
            false => killpg(self.pid.raw(), None),
        };
        asked == Err(Errno::EPERM)
    }

    /// Calls `on_exit` on the watcher's thread when the leader has ended.
    pub fn watch(&self, on_exit: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let pidfd: Arc<OwnedFd> = Arc::clone(&self.pidfd);
        watch::readable(pidfd, once(on_exit)).map(drop)
    }

    pub fn pidfd(&self) -> &Arc<OwnedFd> {
        &self.pidfd
    }
}

/// Calls `on_exit` when a process that is not our child has ended, or at once if it is not the same
/// process: `still` is called after the process was held.
pub fn watch_process(
    pid: Pid,
    still: impl FnMut() -> io::Result<bool>,
    on_exit: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let pidfd = match hold(pid) {
        Ok(pidfd) => pidfd,
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {
            on_exit();
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    if !reserve::with(still)? {
        on_exit();
        return Ok(());
    }
    watch::readable(Arc::new(pidfd), once(on_exit)).map(drop)
}
