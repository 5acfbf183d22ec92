//! Linux: pidfds, and `/proc` for the names of processes.

mod exec;
mod landlock;
mod leader;
mod pidfd;
mod proc;
mod seen;
mod signals;
mod wait;
mod wakes;

use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::sys::signal::{SigHandler, SigSet, Signal, signal};

pub(crate) use exec::*;
pub use landlock::*;
pub use leader::*;
pub use pidfd::*;
pub use proc::*;
pub use seen::*;
pub use signals::HeldSignals;
pub use wait::{Child, waited};
pub use wakes::Wakes;

/// Returns whether this error of exec means that the file cannot be executed.
pub fn is_not_executable(errno: i32) -> bool {
    matches!(
        errno,
        libc::ENOENT | libc::EACCES | libc::ENOEXEC | libc::ELIBBAD
    )
}

/// Sets the size of a pipe, in bytes.
pub fn set_pipe_size(pipe: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    let bytes = i32::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
    nix::fcntl::fcntl(pipe, nix::fcntl::FcntlArg::F_SETPIPE_SZ(bytes))?;
    Ok(())
}

/// Returns the time in clock ticks since boot, as `/proc` gives the start times of processes.
pub fn ticks_since_boot() -> u64 {
    use seen::TICKS;
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME);
    // A kernel without this clock is older than pidfds; then no process counts as too old.
    let Ok(now) = now else { return 0 };
    let (seconds, nanos) = (now.tv_sec().unsigned_abs(), now.tv_nsec().unsigned_abs());
    seconds * TICKS + nanos / (1_000_000_000 / TICKS)
}

/// Makes a command run in a session of its own without a terminal, at most as long as the thread
/// that starts it, with these signals blocked and SIGCHLD at its default.
pub fn in_a_session(command: &mut std::process::Command, blocked: SigSet) {
    use std::os::unix::process::CommandExt as _;
    let parent = nix::unistd::getpid();
    let leave = move || {
        nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
        if nix::unistd::getppid() != parent {
            return Err(nix::errno::Errno::ESRCH.into());
        }
        nix::unistd::setsid()?;
        // A shell that inherits an ignored SIGCHLD does not notice that a program has ended.
        // SAFETY: `signal` may be called here, and no handler is replaced: a program follows.
        unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) }?;
        blocked.thread_set_mask()?;
        Ok(())
    };
    // SAFETY: system calls between fork and exec; nothing is allocated, and no lock is taken.
    unsafe { command.pre_exec(leave) };
}

/// Duplicates a descriptor as `lowest` or above, which closes on exec.
pub fn duplicate_from(fd: BorrowedFd<'_>, lowest: RawFd) -> io::Result<OwnedFd> {
    let fd = nix::fcntl::fcntl(fd, nix::fcntl::FcntlArg::F_DUPFD_CLOEXEC(lowest))?;
    // SAFETY: the kernel has just created the descriptor for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets close-on-exec on all descriptors from `first` on. Best effort: Linux before 5.11 cannot do
/// it.
pub fn close_on_exec_from(first: u32) {
    // By its number: some C libraries do not have it.
    let (call, how) = (libc::SYS_close_range, libc::CLOSE_RANGE_CLOEXEC);
    // SAFETY: nothing is closed or written; the process keeps all descriptors open.
    let _ = unsafe { libc::syscall(call, first, u32::MAX, how) };
}

/// Holds the parent of this process, if that is still its parent once it is held.
pub fn hold_parent() -> Option<OwnedFd> {
    let parent = || super::Pid::new(nix::unistd::getppid().as_raw().into());
    let found = parent()?;
    let held = hold(found).ok()?;
    (parent() == Some(found)).then_some(held)
}

/// Returns the id of this boot of the machine.
pub fn boot_id() -> io::Result<String> {
    let text = text_of("/proc/sys/kernel/random/boot_id").map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => io::Error::new(
            error.kind(),
            "/proc shows no boot id; it may be mounted with subset=pid (systemd's ProcSubset=pid)",
        ),
        _ => error,
    })?;
    Ok(text.trim_end().to_owned())
}
