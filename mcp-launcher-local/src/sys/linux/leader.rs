//! A server's own process, which leads a process group.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::signal::killpg;
use nix::sys::wait::WaitPidFlag;
use tokio::io::unix::AsyncFd;

use mcp_lifecycle_core::launch::ExitStatus;

use super::super::watch::{self, once};
use super::super::{self as sys, Pid, Signal, reserve, unix};
use super::pidfd::{
    group_flag_works, hold_this, is_refusal, pidfd_open, pidfd_signal_alone, pidfd_signal_group,
};
use super::wait::{Child, is_child, peek, reap, waited};
use crate::identity::Cookie;

/// A child of ours that leads a process group, held by a pidfd: the number
/// behind it cannot come to mean another process.
#[derive(Debug)]
pub(crate) struct Leader {
    pid: Pid,
    pidfd: Arc<OwnedFd>,
}

/// Returns whether a child could be held and watched, asked before there is one.
pub(crate) fn can_lead() -> io::Result<()> {
    watch::start()?;
    reserve::keep();
    // Found out while there are descriptors to ask with.
    group_flag_works();
    match hold_this() {
        Err(error) if is_refusal(&error) => Err(io::Error::new(
            error.kind(),
            format!(
                "pidfd_open is refused ({error}): it takes Linux 5.3, and a sandbox (seccomp) \
                 that permits it"
            ),
        )),
        held => held.map(drop),
    }
}

/// SIGKILL to the group of a child that nobody owns. Says whether it reached
/// whoever was in it: not if the number may be somebody else's by now.
pub(crate) fn kill_group_of_child(pid: Pid) -> bool {
    let leader = reserve::with(|| Leader::new(pid, None));
    // Held first, and then asked: whoever is our child now was that before.
    let is_child = is_child(pid);
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
    /// Takes hold of a child that nobody has reaped. Its mark serves the next host's search alone.
    pub(crate) fn new(pid: Pid, _: Option<&Cookie>) -> io::Result<Self> {
        Ok(Self {
            pid,
            pidfd: Arc::new(pidfd_open(pid)?),
        })
    }

    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// How it ended, if it has; it stays a zombie.
    pub(crate) fn peek(&self) -> io::Result<Option<ExitStatus>> {
        Ok(peek(Child::Held(self.pidfd.as_fd()))?)
    }

    /// Reaps it, if it has ended.
    pub(crate) fn reap(&self) {
        if let Err(error) = reap(Child::Held(self.pidfd.as_fd())) {
            let pid = self.pid.as_u32();
            sys::shielded(|| tracing::debug!(pid, %error, "a server could not be reaped"));
        }
    }

    /// Returns whether the group can be reached through the pidfd, also after its
    /// leader was reaped.
    pub(crate) fn reaches_group(&self) -> bool {
        group_flag_works()
    }

    /// Signals the whole group. `reaped`: the leader is gone from the process
    /// table, so its number may mean somebody else's group by now.
    pub(crate) fn signal_group(&self, signal: Signal, reaped: bool) -> io::Result<()> {
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

    /// The group by its number or, where that may be somebody else's by now, the
    /// leader alone.
    fn signal_by_number(&self, signal: Signal) -> io::Result<()> {
        match self.keeps_number() {
            true => Ok(unix::signal_group(self.pid, signal)?),
            false => self.send(signal, pidfd_signal_alone),
        }
    }

    fn send(&self, signal: Signal, way: fn(&OwnedFd, i32) -> Result<(), Errno>) -> io::Result<()> {
        let send = |number| match way(&self.pidfd, number) {
            Ok(()) | Err(Errno::ESRCH) => Ok(()),
            Err(errno) => Err(io::Error::from(errno)),
        };
        match signal {
            Signal::Terminate => send(libc::SIGTERM).and_then(|()| send(libc::SIGCONT)),
            Signal::Kill => send(libc::SIGKILL),
        }
    }

    /// Returns whether a signal to the group reaches nobody else: through the pidfd, or by
    /// a number that nobody else can have.
    pub(crate) fn reaches_members(&self) -> bool {
        self.reaches_group() || self.keeps_number()
    }

    /// Returns whether its number is its own until this crate reaps it. Where SIGCHLD is
    /// ignored the kernel reaps, at any instant.
    fn keeps_number(&self) -> bool {
        let child = waited(Child::Held(self.pidfd.as_fd()), WaitPidFlag::WNOWAIT);
        !unix::children_vanish() && child != Err(Errno::ECHILD)
    }

    /// Returns whether nobody at all is left in the group. Asked after reaping.
    pub(crate) fn group_is_empty(&self) -> bool {
        if self.reaches_group() {
            pidfd_signal_group(&self.pidfd, 0) == Err(Errno::ESRCH)
        } else {
            unix::group_is_empty(self.pid)
        }
    }

    /// Returns whether somebody is in the group, and everybody in it another user's.
    /// Asked after reaping.
    pub(crate) fn group_is_anothers(&self) -> bool {
        let asked = match self.reaches_group() {
            true => pidfd_signal_group(&self.pidfd, 0),
            false => killpg(self.pid.raw(), None),
        };
        asked == Err(Errno::EPERM)
    }

    /// Calls `on_exit` on the watcher's thread when the leader has ended.
    pub(crate) fn watch(&self, on_exit: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let pidfd: Arc<OwnedFd> = Arc::clone(&self.pidfd);
        watch::readable(pidfd, once(on_exit)).map(drop)
    }

    /// The exit as an event of the current runtime, for tasks that wait for it.
    pub(crate) fn exit_event(&self) -> io::Result<ExitEvent> {
        let pidfd = PidFd(Arc::clone(&self.pidfd));
        // SAFETY: the descriptor is owned by the `Arc` in `pidfd`, which stays as
        // it is until the `AsyncFd` is dropped: it is open for as long, and is
        // always the same.
        let event =
            unsafe { AsyncFd::register_with_interest(pidfd, tokio::io::Interest::READABLE) };
        Ok(ExitEvent(event?))
    }
}

/// The exit of a process as an event of one runtime.
///
/// The watcher's thread sees it as well, whatever happens to the runtime. But
/// where a task waits, its own worker sees it without being woken by another
/// thread first, and that is a third of the time an end takes.
#[derive(Debug)]
pub(crate) struct ExitEvent(AsyncFd<PidFd>);

#[derive(Debug)]
struct PidFd(Arc<OwnedFd>);

impl AsRawFd for PidFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl ExitEvent {
    /// Completes when the process has exited; never, once the runtime has gone.
    pub(crate) async fn happened(&self) {
        if self.0.readable().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Calls `on_exit` when a process that is not our child has ended, or at once
/// if it is not what it was: `still` is asked after the process was pinned.
///
/// # Errors
///
/// It cannot be pinned, or nobody can tell whether it is what it was.
pub(crate) fn watch_process(
    pid: Pid,
    still: impl FnMut() -> io::Result<bool>,
    on_exit: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let pidfd = match pidfd_open(pid) {
        Ok(pidfd) => pidfd,
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {
            on_exit();
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    // Its descriptor may have been the last one.
    if !reserve::with(still)? {
        on_exit();
        return Ok(());
    }
    watch::readable(Arc::new(pidfd), once(on_exit)).map(drop)
}
