//! Processes held by a pidfd, which always refers to the same process.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::super::{Pid, deadline, uninterrupted};

/// Holds a process that need not be ours. The caller must then check that it is the right one.
pub fn hold(pid: Pid) -> io::Result<OwnedFd> {
    open(pid.0)
}

/// Sends SIGKILL to a held process.
pub fn kill_held(pidfd: &OwnedFd) -> io::Result<()> {
    Ok(pidfd_signal_alone(pidfd, libc::SIGKILL)?)
}

/// Sends SIGTERM to a held process, and SIGCONT: a stopped one does not handle SIGTERM.
pub fn terminate_held(pidfd: &OwnedFd) -> io::Result<()> {
    pidfd_signal_alone(pidfd, libc::SIGTERM)?;
    continue_held(pidfd)
}

/// Sends SIGCONT to a held process.
pub fn continue_held(pidfd: &OwnedFd) -> io::Result<()> {
    Ok(pidfd_signal_alone(pidfd, libc::SIGCONT)?)
}

/// Returns whether this is the pid of a process that has not ended, not only of one of its threads.
pub fn is_running(pid: u32) -> bool {
    let Some(pid) = Pid::new(pid.into()) else {
        return false;
    };
    match hold(pid) {
        Ok(pidfd) => !ends_within(pidfd.as_fd(), Duration::ZERO).unwrap_or(false),
        // Kernels differ in their error for a thread. Any other error leaves it open.
        Err(error) => !matches!(
            error.raw_os_error(),
            Some(libc::ESRCH | libc::EINVAL | libc::ENOENT)
        ),
    }
}

/// Returns whether a held process ends within `limit`. Blocks the thread.
pub fn ends_within(pidfd: BorrowedFd<'_>, limit: Duration) -> io::Result<bool> {
    let mut fds = [PollFd::new(pidfd, PollFlags::POLLIN)];
    Ok(poll_until(&mut fds, deadline(limit))?)
}

/// Waits until one of these is ready, and returns whether one is. Blocks the thread.
pub(super) fn poll_until(fds: &mut [PollFd<'_>], end: Instant) -> Result<bool, Errno> {
    let ready = uninterrupted(|| {
        let left = end.saturating_duration_since(Instant::now());
        poll(fds, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX))
    });
    Ok(ready? > 0)
}

/// Waits for the ends of all these processes, and drops those that have ended. Blocks the thread.
pub fn end_within(held: &mut Vec<OwnedFd>, limit: Duration) {
    let end = deadline(limit);
    while !held.is_empty() {
        let mut asked: Vec<_> = held
            .iter()
            .map(|pidfd| PollFd::new(pidfd.as_fd(), PollFlags::POLLIN))
            .collect();
        if poll_until(&mut asked, end) != Ok(true) {
            return;
        }
        let ended: Vec<bool> = asked.iter().map(|it| it.any() == Some(true)).collect();
        let mut ended = ended.into_iter();
        held.retain(|_| ended.next() != Some(true));
    }
}

/// Returns an error ([`Unsupported`](io::ErrorKind::Unsupported)) if the kernel or a sandbox refuses
/// pidfds. Any other error may pass.
pub fn has_pidfds() -> io::Result<()> {
    match hold_this() {
        Err(error) if is_refusal(&error) => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!(
                "pidfd_open is refused ({error}): it takes Linux 5.3, and a sandbox (seccomp) \
                 that permits it"
            ),
        )),
        held => held.map(drop),
    }
}

fn hold_this() -> io::Result<OwnedFd> {
    open(nix::unistd::getpid().as_raw())
}

fn open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open takes two integers and touches no memory of ours.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let fd = Errno::result(fd)? as i32;
    // SAFETY: the kernel has just created this descriptor for us alone. It is close-on-exec by
    // definition (pidfd_open(2)).
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

pub(super) fn pidfd_signal_group(pidfd: &OwnedFd, signal: i32) -> Result<(), Errno> {
    pidfd_signal(pidfd, signal, libc::PIDFD_SIGNAL_PROCESS_GROUP)
}

pub(super) fn pidfd_signal_alone(pidfd: &OwnedFd, signal: i32) -> Result<(), Errno> {
    pidfd_signal(pidfd, signal, 0)
}

fn pidfd_signal(pidfd: &OwnedFd, signal: i32, flags: u32) -> Result<(), Errno> {
    // SAFETY: the descriptor is open, and a null siginfo is allowed
    // (pidfd_send_signal(2)): the kernel fills in what kill(2) would.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            signal,
            std::ptr::null::<libc::siginfo_t>(),
            flags,
        )
    };
    Errno::result(result).map(drop)
}

/// Returns whether the kernel supports `PIDFD_SIGNAL_PROCESS_GROUP` (Linux 6.9), tried with signal
/// 0 to our own group.
pub(super) fn group_flag_works() -> bool {
    static WORKS: OnceLock<bool> = OnceLock::new();
    if let Some(works) = WORKS.get() {
        return *works;
    }
    let works = match hold_this() {
        // ESRCH: we lead no group, but the flag was accepted.
        Ok(own) => matches!(pidfd_signal_group(&own, 0), Ok(()) | Err(Errno::ESRCH)),
        Err(error) if is_refusal(&error) => false,
        // Without a descriptor it cannot be tried now.
        Err(_) => return false,
    };
    *WORKS.get_or_init(|| works)
}

fn is_refusal(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS)
    )
}
