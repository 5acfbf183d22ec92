//! Signals that ask this process to end, held back while it has to end something first.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use super::pidfd::poll_until;

/// Blocks these signals in the creating thread while this exists.
#[derive(Debug)]
pub struct HeldSignals {
    arrived: SignalFd,
    pub before: SigSet,
}

impl HeldSignals {
    pub fn new() -> io::Result<Self> {
        let ends = [
            Signal::SIGTERM,
            Signal::SIGINT,
            Signal::SIGHUP,
            Signal::SIGQUIT,
        ];
        let ends = SigSet::from_iter(ends);
        let arrived = SignalFd::with_flags(&ends, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        let before = ends.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        Ok(Self { arrived, before })
    }

    /// Waits until this is readable, or has ended; returns `false` when the time is over, and
    /// `Interrupted` if one of the signals is pending.
    pub fn readable_within(&self, fd: BorrowedFd<'_>, limit: Duration) -> io::Result<bool> {
        let end = Instant::now() + limit;
        let mut fds = [fd, self.arrived.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        poll_until(&mut fds, end)?;
        match fds.map(|fd| fd.any()) {
            [_, Some(true)] => Err(io::Error::new(
                io::ErrorKind::Interrupted,
                "this process was asked to end",
            )),
            [readable, _] => Ok(readable == Some(true)),
        }
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        // Pending signals arrive now.
        let _ = self.before.thread_set_mask();
    }
}
