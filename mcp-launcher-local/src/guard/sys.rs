//! The calls that no safe wrapper among our dependencies makes. All `unsafe` code of this side.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use nix::fcntl::{FcntlArg, fcntl};

/// A descriptor that refers to the process `pid`, which closes on exec.
///
/// The caller knows that `pid` is a child it has not reaped, or itself: any other number may be somebody else's by now.
pub(super) fn pidfd_open(pid: u32) -> io::Result<OwnedFd> {
    let pid = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
    // SAFETY: the call takes two numbers and touches no memory of ours.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let fd = RawFd::try_from(fd)
        .ok()
        .filter(|&fd| fd >= 0)
        .ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the kernel has just created the descriptor for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A second descriptor of the same file, numbered `lowest` or above, which closes on exec.
pub(super) fn duplicate_from(fd: BorrowedFd<'_>, lowest: RawFd) -> io::Result<OwnedFd> {
    let fd = fcntl(fd, FcntlArg::F_DUPFD_CLOEXEC(lowest))?;
    // SAFETY: the kernel has just created the descriptor for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Signals the process behind a pidfd, whatever has become of its number.
pub(super) fn pidfd_signal(pidfd: BorrowedFd<'_>, signal: i32) -> io::Result<()> {
    // SAFETY: the descriptor is open for the call, and a null siginfo is allowed (pidfd_send_signal(2)).
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            signal,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
