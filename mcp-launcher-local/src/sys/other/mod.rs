//! Other Unix than Linux: the group is reached by number, for as long as its
//! leader has not been reaped, and a pipe watcher ends it when the host dies.
//!
//! ```text
//! exits ──── when a process has ended: kqueue, or a thread for each
//! facts ──── who is in a group, when a process started, which boot this is
//! ids ────── on macOS, the numbers of processes that are never given out twice
//! descent ── the descendants of a server: the lineage of macOS, the reaper of FreeBSD
//! search ─── on macOS, what a search for orphans asks
//! spawn ──── on macOS, a process that starts suspended
//! ward ───── on macOS, the server of a guardian
//! xnu ────── on macOS, the system calls of a hunt
//! wait ───── how a child has ended
//! ```
//!
//! Best effort, and unmeasured: compiled for macOS and FreeBSD, run on no
//! machine of ours but for the pipe watcher, whose tests run everywhere.

#[cfg_attr(
    any(
        target_vendor = "apple",
        target_os = "freebsd",
        target_os = "dragonfly",
        target_os = "openbsd",
        target_os = "netbsd"
    ),
    path = "exits_kqueue.rs"
)]
#[cfg_attr(
    not(any(
        target_vendor = "apple",
        target_os = "freebsd",
        target_os = "dragonfly",
        target_os = "openbsd",
        target_os = "netbsd"
    )),
    path = "exits_thread.rs"
)]
mod exits;

#[cfg_attr(target_os = "macos", path = "descent_macos.rs")]
#[cfg_attr(target_os = "freebsd", path = "descent_freebsd.rs")]
#[cfg_attr(
    not(any(target_os = "macos", target_os = "freebsd")),
    path = "descent_none.rs"
)]
mod descent;
#[cfg_attr(target_os = "macos", path = "facts_macos.rs")]
#[cfg_attr(not(target_os = "macos"), path = "facts_ps.rs")]
mod facts;
#[cfg(target_os = "macos")]
#[path = "ids_macos.rs"]
mod ids;
#[cfg(target_os = "macos")]
#[path = "search_macos.rs"]
mod search;
#[cfg(target_os = "macos")]
#[path = "spawn_macos.rs"]
mod spawn;
mod wait;
#[cfg(target_os = "macos")]
#[path = "ward_macos.rs"]
mod ward;
#[cfg(target_os = "macos")]
#[path = "xnu_macos.rs"]
mod xnu;

use std::io;
use std::os::fd::BorrowedFd;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
#[cfg(target_os = "macos")]
use std::{
    thread,
    time::{Duration, Instant},
};

use mcp_lifecycle_core::launch::{ExitStatus, Reach};

#[cfg(not(target_os = "macos"))]
use self::descent::Descent;
#[cfg(target_os = "macos")]
pub(crate) use self::{
    descent::Descent,
    search::Mac,
    spawn::{Start, inherited_socket, start, without_sigpipe},
    ward::{NoWard, Ward},
};
use super::lifeline::Lifeline;
#[cfg(not(target_os = "macos"))]
use super::listing;
use super::{Member, Pid, Signal, unix};
use crate::identity::Cookie;

/// The mechanism that ends a group when the host dies, and how far that reaches.
#[cfg(not(any(target_os = "macos", target_os = "freebsd")))]
pub(crate) const HOST_DEATH: (&str, Reach) = ("process group and pipe watcher", Reach::Group);
/// The same. The reaper reaches further than the group while the server lives; unmeasured, so nothing is promised.
#[cfg(target_os = "freebsd")]
pub(crate) const HOST_DEATH: (&str, Reach) =
    ("process group, reaper and pipe watcher", Reach::Group);
/// The same. The lineage reaches further than the group; nobody has measured how far, so nothing is promised.
#[cfg(target_os = "macos")]
pub(crate) const HOST_DEATH: (&str, Reach) =
    ("process group, lineage and pipe watcher", Reach::Group);

/// A child of ours that leads a process group.
#[derive(Debug)]
pub(crate) struct Leader {
    pid: Pid,
    /// Struck off before the leader is reaped.
    lifeline: Mutex<Option<Lifeline>>,
    /// Forgotten before the leader is reaped.
    descent: Mutex<Option<Descent>>,
}

/// Prepares what a server is to have before its first instruction.
pub(crate) fn prepare(command: &mut Command) {
    descent::prepare(command);
}

/// Returns whether a child could be watched, asked before there is one.
pub(crate) fn can_lead() -> io::Result<()> {
    exits::start()
}

impl Leader {
    pub(crate) fn new(pid: Pid, identity: Option<&Cookie>) -> io::Result<Self> {
        Ok(Self {
            pid,
            lifeline: Mutex::new(Some(Lifeline::tie(pid)?)),
            descent: Mutex::new(Some(Descent::begin(pid, identity))),
        })
    }

    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    pub(crate) fn peek(&self) -> io::Result<Option<ExitStatus>> {
        wait::ended(self.pid)
    }

    pub(crate) fn reap(&self) {
        let lifeline = self.lifeline.lock();
        drop(lifeline.unwrap_or_else(PoisonError::into_inner).take());
        drop(self.descent().take());
        if let Err(error) = wait::reap(self.pid) {
            let pid = self.pid.as_u32();
            super::shielded(|| tracing::debug!(pid, %error, "a server could not be reaped"));
        }
    }

    pub(crate) fn reaches_group(&self) -> bool {
        false
    }

    /// Returns whether a signal to the group reaches nobody else.
    pub(crate) fn reaches_members(&self) -> bool {
        true
    }

    pub(crate) fn signal_group(&self, signal: Signal, reaped: bool) -> io::Result<()> {
        super::not_forked()?;
        if reaped {
            return Ok(());
        }
        let descent = self.descent();
        // Before the group: who is held first cannot give its children away.
        if let (Some(descent), Signal::Kill) = (&*descent, signal) {
            descent.end();
        }
        let sent = unix::signal_group(self.pid, signal);
        if let (Some(descent), Signal::Terminate) = (&*descent, signal) {
            descent.ask_to_end();
        }
        Ok(sent?)
    }

    fn descent(&self) -> MutexGuard<'_, Option<Descent>> {
        self.descent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn group_is_empty(&self) -> bool {
        unix::group_is_empty(self.pid)
    }

    /// Listings here show every user's processes, and macOS refuses a signal to
    /// a group of zombies as well: what was listed counts.
    pub(crate) fn group_is_anothers(&self) -> bool {
        false
    }

    pub(crate) fn exit_event(&self) -> io::Result<ExitEvent> {
        Ok(ExitEvent)
    }

    pub(crate) fn watch(&self, on_exit: impl FnOnce() + Send + 'static) -> io::Result<()> {
        exits::watch(self.pid, on_exit)
    }
}

/// There is none that is portable: the watcher's thread has to do.
#[derive(Debug)]
pub(crate) struct ExitEvent;

impl ExitEvent {
    pub(crate) async fn happened(&self) {
        std::future::pending().await
    }
}

pub(crate) fn watch_process(
    pid: Pid,
    mut still: impl FnMut() -> io::Result<bool>,
    on_exit: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    if !still()? && !descent::is_member(pid) {
        on_exit();
        return Ok(());
    }
    exits::watch(pid, on_exit)
}

/// SIGKILL to the group of a child that nobody owns, and says whether it was sent.
pub(crate) fn kill_group_of_child(pid: Pid) -> bool {
    let is_child = !matches!(wait::peek(pid), Ok(Some(ExitStatus::Unknown)));
    is_child && unix::signal_group(pid, Signal::Kill).is_ok()
}

/// The live members of the group of a leader, and who descends from it outside of that, as far as it was seen.
pub(crate) fn members_of_group(group: Pid) -> io::Result<Vec<Member>> {
    let mut members = facts::members_of_group(group)?;
    members.extend(descent::outside(group)?);
    Ok(members)
}

pub(crate) fn start_time(pid: Pid) -> Option<u64> {
    facts::start_time_of(pid.as_u32())
}

/// When this process started.
pub(crate) fn own_start_time() -> io::Result<u64> {
    let own = facts::start_time_of(std::process::id());
    own.ok_or_else(|| io::ErrorKind::Unsupported.into())
}

/// Calls `on_exit` when this process has ended, at once if there is none.
#[cfg(target_os = "macos")]
pub(crate) fn watch_exit(pid: Pid, on_exit: impl FnOnce() + Send + 'static) -> io::Result<()> {
    exits::watch(pid, on_exit)
}

/// Reaps a child that ends by itself, and kills it if it has not in that time. Blocks.
#[cfg(target_os = "macos")]
pub(crate) fn reap_within(pid: Pid, limit: Duration) {
    let end = Instant::now() + limit;
    while let Ok(None) = wait::reap(pid) {
        if Instant::now() >= end {
            // Not reaped: its number is its own.
            let _ = nix::sys::signal::kill(pid.raw(), nix::sys::signal::SIGKILL);
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Nothing, to be filled in by `kevent`.
#[cfg(target_os = "macos")]
fn no_event() -> nix::sys::event::KEvent {
    use nix::sys::event::{EvFlags, EventFilter, FilterFlag, KEvent};
    let (flags, what) = (EvFlags::empty(), FilterFlag::empty());
    KEvent::new(0, EventFilter::EVFILT_PROC, flags, what, 0, 0)
}

/// Which boot of the machine this is.
pub(crate) fn boot_id() -> io::Result<String> {
    facts::boot_id().ok_or_else(|| io::ErrorKind::Unsupported.into())
}

/// Returns whether this error of exec says that the file cannot be executed.
pub(crate) fn is_not_executable(errno: i32) -> bool {
    matches!(errno, libc::ENOENT | libc::EACCES | libc::ENOEXEC)
}

/// Pipes have the size the system gives them.
pub(crate) fn set_pipe_size(_pipe: BorrowedFd<'_>, _bytes: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
