//! Linux: pidfds, and `/proc` to put names to processes.

mod inherited;
mod interrupt;
mod leader;
mod pidfd;
mod seen;
mod signals;
mod usage;
mod wait;

use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};

use mcp_lifecycle_core::launch::Reach;
use nix::sys::signal::{SigHandler, SigSet, Signal, signal};

pub(crate) use inherited::inherited_by_threads;
#[cfg(test)]
pub(crate) use inherited::set_io_priority;
pub use interrupt::interrupt_group;
pub(crate) use leader::{ExitEvent, Leader, can_lead, kill_group_of_child, watch_process};
pub(crate) use pidfd::{
    continue_held, end_within, ends_within, hold, hold_this, is_running, kill_held, terminate_held,
};
pub(crate) use seen::{
    ProcEntry, ProcessState, Seen, bytes_of, cgroup_of, entries_of_proc, is_headless, look_at,
    may_signal, members_of_group, name_of, numbers_in_proc, own_start_time, see, see_all,
    start_time, text_of, tracer_of,
};
pub(crate) use signals::HeldSignals;
pub(crate) use usage::{cpu_of, memory_of, of_ticks};
pub(crate) use wait::{Child, waited};

/// The mechanism that ends a process group when the host dies: here that is the guardian's
/// work, so whoever asks for a process group alone gets no more than that.
pub(crate) const HOST_DEATH: (&str, Reach) = ("process group", Reach::Nothing);

/// Nothing: on Linux the guardian prepares, and a group is a group.
pub(crate) fn prepare(_: &mut std::process::Command) {}

/// Returns whether this error of exec says that the file cannot be executed.
pub(crate) fn is_not_executable(errno: i32) -> bool {
    matches!(
        errno,
        libc::ENOENT | libc::EACCES | libc::ENOEXEC | libc::ELIBBAD
    )
}

/// Sets how many bytes a pipe holds.
pub(crate) fn set_pipe_size(pipe: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    let bytes = i32::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
    nix::fcntl::fcntl(pipe, nix::fcntl::FcntlArg::F_SETPIPE_SZ(bytes))?;
    Ok(())
}

/// The time, in the clock ticks since boot by which `/proc` says when a process was
/// started.
pub(crate) fn ticks_since_boot() -> u64 {
    use usage::TICKS;
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME);
    // A kernel without this clock is older than pidfds; then nobody is too old.
    let Ok(now) = now else { return 0 };
    let (seconds, nanos) = (now.tv_sec().unsigned_abs(), now.tv_nsec().unsigned_abs());
    seconds * TICKS + nanos / (1_000_000_000 / TICKS)
}

/// Has a command run in a session of its own, which has no terminal, until the thread that starts it ends, with these signals blocked, and with
/// SIGCHLD as programs expect it.
pub(crate) fn in_a_session(command: &mut std::process::Command, blocked: SigSet) {
    use std::os::unix::process::CommandExt as _;
    let parent = nix::unistd::getpid();
    let leave = move || {
        nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
        if nix::unistd::getppid() != parent {
            return Err(nix::errno::Errno::ESRCH.into());
        }
        nix::unistd::setsid()?;
        // A shell that ignores the ends of its children, as its host may, does not find out that a program has ended.
        // SAFETY: `signal` may be called here, and no handler is replaced: a program follows.
        unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) }?;
        blocked.thread_set_mask()?;
        Ok(())
    };
    // SAFETY: system calls between fork and exec; nothing is allocated, and no lock is taken.
    unsafe { command.pre_exec(leave) };
}

/// A second descriptor of the same file, numbered `lowest` or above, which closes on exec.
pub(crate) fn duplicate_from(fd: BorrowedFd<'_>, lowest: RawFd) -> io::Result<OwnedFd> {
    let fd = nix::fcntl::fcntl(fd, nix::fcntl::FcntlArg::F_DUPFD_CLOEXEC(lowest))?;
    // SAFETY: the kernel has just created the descriptor for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Has every descriptor from `first` on close on exec. Best effort: Linux before 5.11 cannot do it.
pub(crate) fn close_on_exec_from(first: u32) {
    // By its number: not every C library has it.
    let (call, how) = (libc::SYS_close_range, libc::CLOSE_RANGE_CLOEXEC);
    // SAFETY: nothing is closed or written; what the process has open, it keeps.
    let _ = unsafe { libc::syscall(call, first, u32::MAX, how) };
}

/// The process that started this one, held, if that can be told: a number above 1 that is
/// still the parent's when it is held.
pub fn hold_parent() -> Option<OwnedFd> {
    let parent = || super::Pid::new(nix::unistd::getppid().as_raw().into());
    let found = parent()?;
    let held = hold(found).ok()?;
    (parent() == Some(found)).then_some(held)
}

/// Which boot of the machine this is.
pub(crate) fn boot_id() -> io::Result<String> {
    let text = text_of("/proc/sys/kernel/random/boot_id")?;
    Ok(text.trim_end().to_owned())
}
