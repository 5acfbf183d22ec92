//! Processes held by a pidfd, which cannot come to mean another process.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::super::{Pid, deadline, uninterrupted};

/// Takes hold of a process that need not be ours: whoever does must then make
/// sure that it is the one that was meant.
pub(crate) fn hold(pid: Pid) -> io::Result<OwnedFd> {
    pidfd_open(pid)
}

/// SIGKILL to a process that is held.
pub(crate) fn kill_held(pidfd: &OwnedFd) -> io::Result<()> {
    Ok(pidfd_signal_alone(pidfd, libc::SIGKILL)?)
}

/// SIGTERM to a process that is held, and SIGCONT: a stopped one acts on nothing else.
pub(crate) fn terminate_held(pidfd: &OwnedFd) -> io::Result<()> {
    pidfd_signal_alone(pidfd, libc::SIGTERM)?;
    continue_held(pidfd)
}

/// SIGCONT to a process that is held.
pub(crate) fn continue_held(pidfd: &OwnedFd) -> io::Result<()> {
    Ok(pidfd_signal_alone(pidfd, libc::SIGCONT)?)
}

/// Returns whether that number is a process's that has not ended, and not only one of
/// its threads'.
pub(crate) fn is_running(pid: u32) -> bool {
    let Some(pid) = Pid::new(pid.into()) else {
        return false;
    };
    match pidfd_open(pid) {
        Ok(pidfd) => !ends_within(pidfd.as_fd(), Duration::ZERO).unwrap_or(false),
        // Kernels differ in what they say of a thread. Any other error leaves it
        // open, and then it may be one.
        Err(error) => !matches!(
            error.raw_os_error(),
            Some(libc::ESRCH | libc::EINVAL | libc::ENOENT)
        ),
    }
}

/// Returns whether a process that is held has ended, or does so in time. Blocks the thread.
pub(crate) fn ends_within(pidfd: BorrowedFd<'_>, limit: Duration) -> io::Result<bool> {
    let end = deadline(limit);
    let ready = uninterrupted(|| {
        let left = end.saturating_duration_since(Instant::now());
        let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        poll(&mut [PollFd::new(pidfd, PollFlags::POLLIN)], left)
    });
    Ok(ready? > 0)
}

/// Waits for the ends of processes that are held, all of them together, and lets go of
/// those that have ended. Blocks the thread.
pub(crate) fn end_within(held: &mut Vec<OwnedFd>, limit: Duration) {
    let end = deadline(limit);
    while !held.is_empty() {
        let left = end.saturating_duration_since(Instant::now());
        let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        let mut asked: Vec<_> = held
            .iter()
            .map(|pidfd| PollFd::new(pidfd.as_fd(), PollFlags::POLLIN))
            .collect();
        if !uninterrupted(|| poll(&mut asked, left)).is_ok_and(|ready| ready > 0) {
            return;
        }
        let ended: Vec<bool> = asked.iter().map(|it| it.any() == Some(true)).collect();
        let mut ended = ended.into_iter();
        held.retain(|_| ended.next() != Some(true));
    }
}

/// Takes hold of this process, also where it is the first of its PID namespace:
/// what a kernel and a sandbox permit is found out by this.
pub(crate) fn hold_this() -> io::Result<OwnedFd> {
    open(nix::unistd::getpid().as_raw())
}

pub(super) fn pidfd_open(pid: Pid) -> io::Result<OwnedFd> {
    open(pid.0)
}

fn open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open takes two integers and touches no memory of ours.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let fd = Errno::result(fd)? as i32;
    // SAFETY: the kernel has just given us this descriptor; nobody else owns it.
    // It is close-on-exec by definition (pidfd_open(2)).
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

/// Returns whether the kernel knows `PIDFD_SIGNAL_PROCESS_GROUP` (Linux 6.9), found out
/// by asking it to send nothing to our own group.
pub(super) fn group_flag_works() -> bool {
    static KNOWN: AtomicBool = AtomicBool::new(false);
    static WORKS: AtomicBool = AtomicBool::new(false);
    if !KNOWN.load(Ordering::Acquire) {
        let works = match hold_this() {
            // ESRCH: we do not lead a group, but the flag was understood.
            Ok(own) => matches!(pidfd_signal_group(&own, 0), Ok(()) | Err(Errno::ESRCH)),
            Err(error) if is_refusal(&error) => false,
            // Without a descriptor we cannot ask now.
            Err(_) => return false,
        };
        WORKS.store(works, Ordering::Release);
        KNOWN.store(true, Ordering::Release);
    }
    WORKS.load(Ordering::Acquire)
}

pub(super) fn is_refusal(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS)
    )
}
