//! The end of a process as an event, and whose end a proof waits for.

use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Waits until all of a process has ended, at most `limit` long, and says whether it
/// has. Whatever it has held is closed before that.
pub(crate) fn ends_within(pid: u32, limit: Duration) -> io::Result<bool> {
    // SAFETY: the call takes numbers only.
    let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let opened = match Errno::result(opened) {
        Err(Errno::ESRCH) => return Ok(true),
        opened => RawFd::try_from(opened?).map_err(io::Error::other)?,
    };
    // SAFETY: the kernel has just created it for us.
    let process = unsafe { OwnedFd::from_raw_fd(opened) };
    let mut ended = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
    let limit = PollTimeout::try_from(limit).map_err(io::Error::other)?;
    Ok(poll(&mut ended, limit)? == 1)
}

/// Those who may be of a server whose guardian was killed, by the error that says so; none
/// if it does not name all.
pub(crate) fn suspects_in(error: &str) -> Vec<u32> {
    let named = error.rsplit_once("may be its (once they have gone, another attempt proves it): ");
    let named = named.map_or("", |(_, named)| named);
    let named = if named.ends_with(" more") { "" } else { named }.split(", ");
    named
        .filter_map(|it| it.split(' ').next()?.parse().ok())
        .collect()
}
