//! All system calls of the process-group level, one file per kind of system
//! with the same functions. Callers contain no `cfg`.

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod os;

#[cfg(not(target_os = "linux"))]
#[path = "other/mod.rs"]
mod os;

#[cfg(any(not(target_os = "linux"), test))]
mod lifeline;
#[cfg(any(not(any(target_os = "linux", target_os = "macos")), test))]
mod listing;

#[cfg(target_os = "linux")]
pub(crate) mod reserve;
mod unix;
#[cfg(target_os = "linux")]
pub(crate) mod watch;

pub(crate) use os::{
    ExitEvent, HOST_DEATH, Leader, boot_id, can_lead, is_not_executable, members_of_group,
    set_pipe_size, start_time, start_time_of, watch_process,
};
#[cfg(target_os = "linux")]
pub(crate) use os::{
    ProcessState, Seen, hold, kill_held, name_of, parent_of, see, see_all, tracer_of,
};
pub(crate) use unix::{may_execute, signal_group};

/// Runs code that reports to others, whose panics are theirs alone.
///
/// On a thread that waits for all servers, or in the middle of undoing a launch,
/// a subscriber of `tracing` that panics must not stop what comes next.
pub(crate) fn shielded(report: impl FnOnce()) {
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(report));
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
