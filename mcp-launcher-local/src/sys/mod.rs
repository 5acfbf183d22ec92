//! All system calls of Unix, one file per kind of system
//! with the same functions; those of Windows are in `windows`. Callers contain no `cfg`.

use std::io;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::errno::Errno;

#[cfg(target_os = "linux")]
#[path = "linux/mod.rs"]
mod os;

#[cfg(not(target_os = "linux"))]
#[path = "other/mod.rs"]
mod os;

#[cfg(any(not(target_os = "linux"), test))]
pub(crate) mod lifeline;
#[cfg(any(not(any(target_os = "linux", target_os = "macos")), test))]
mod listing;

#[cfg(target_os = "linux")]
pub(crate) mod reserve;
#[cfg(target_os = "linux")]
pub(crate) mod stat;
mod unix;
#[cfg(target_os = "linux")]
pub(crate) mod watch;

#[cfg(all(target_os = "linux", test))]
pub(crate) use os::set_io_priority;
#[cfg(target_os = "linux")]
pub(crate) use os::{
    Child, HeldSignals, ProcEntry, ProcessState, Seen, bytes_of, cgroup_of, close_on_exec_from,
    continue_held, cpu_of, duplicate_from, end_within, ends_within, entries_of_proc, hold,
    hold_this, in_a_session, inherited_by_threads, is_headless, is_running, kill_held, look_at,
    may_signal, memory_of, name_of, numbers_in_proc, of_ticks, see, see_all, terminate_held,
    text_of, ticks_since_boot, tracer_of, waited,
};
#[cfg(target_os = "macos")]
pub(crate) use os::{
    Descent, Mac, NoWard, Start, Ward, inherited_socket, reap_within, start, watch_exit,
    without_sigpipe,
};
pub(crate) use os::{
    ExitEvent, HOST_DEATH, Leader, boot_id, can_lead, is_not_executable, kill_group_of_child,
    members_of_group, own_start_time, prepare, set_pipe_size, start_time, watch_process,
};
#[cfg(target_os = "linux")]
pub use os::{hold_parent, interrupt_group};
#[cfg(target_os = "linux")]
pub(crate) use unix::may_write;
pub(crate) use unix::{
    DEFAULT_PATH, is_in_group, limit_of, may_execute, names_a_path, spellings, variable,
};

/// The instant at which a time is over that somebody else has chosen. More than 49 days are 49 days, as for a guardian.
#[cfg(target_os = "linux")]
pub(crate) fn deadline(limit: std::time::Duration) -> std::time::Instant {
    const LONGEST: std::time::Duration = std::time::Duration::from_millis(u32::MAX as u64);
    std::time::Instant::now() + limit.min(LONGEST)
}

/// The process that servers belong to: the first that launched one.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Makes this process the one that servers belong to, unless it is a copy of one
/// that is already.
pub(crate) fn own_servers() -> io::Result<()> {
    let nobody = OWNER.compare_exchange(0, process::id(), Ordering::Relaxed, Ordering::Relaxed);
    nobody.map(drop).or_else(|_| not_forked())
}

/// An error in a process that was forked from the one that servers belong to,
/// and has not executed a program since: it has a copy of everything that this
/// crate keeps, and none of its threads.
pub(crate) fn not_forked() -> io::Result<()> {
    match OWNER.load(Ordering::Relaxed) {
        owner if owner == 0 || owner == process::id() => Ok(()),
        owner => Err(io::Error::other(format!(
            "this process is a fork of process {owner}, which launches servers and owns them; \
             only a program that it executes can launch servers of its own"
        ))),
    }
}

/// Returns whether this error says that there was no descriptor or no memory: it says
/// nothing of what was asked for, and is no answer to be kept.
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM)
    )
}

/// Runs code that reports to others, whose panics are theirs alone.
///
/// On a thread that waits for all servers, or in the middle of undoing a launch,
/// a subscriber of `tracing` that panics must not stop what comes next.
pub(crate) fn shielded(report: impl FnOnce()) {
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(report));
}

/// Makes a system call, and makes it again for as long as it is interrupted.
///
/// A signal that the host handles, or a stop and a SIGCONT, says nothing of what was
/// asked: taken for an answer, it would leave a zombie, or call the living dead.
pub(crate) fn uninterrupted<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::EINTR) => {}
            result => return result,
        }
    }
}

/// A process that is, or was, a member of a server's group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) pid: Pid,
    pub(crate) name: String,
}

/// The id of a process that may be signalled: never 0, 1 or negative, which
/// mean "my group", "init" and "everybody".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Pid(i32);

impl Pid {
    pub(crate) fn new(pid: i64) -> Option<Self> {
        i32::try_from(pid).ok().filter(|pid| *pid > 1).map(Self)
    }

    pub(crate) fn as_u32(self) -> u32 {
        self.0.unsigned_abs()
    }

    fn raw(self) -> nix::unistd::Pid {
        nix::unistd::Pid::from_raw(self.0)
    }
}

/// A signal that this crate sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Please end. Comes with SIGCONT: a stopped process acts on nothing else.
    Terminate,
    /// End.
    Kill,
}
