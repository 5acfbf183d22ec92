//! Writing to files below a limit on their size (`RLIMIT_FSIZE`).

use std::io;

use nix::errno::Errno;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// Calls `write`. Exceeding the limit is an error (`EFBIG`), without the SIGXFSZ that ends a process.
pub fn shielded<T>(write: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    if getrlimit(Resource::RLIMIT_FSIZE).is_ok_and(|(limit, _)| limit == RLIM_INFINITY) {
        return write();
    }
    let signal = SigSet::from(Signal::SIGXFSZ);
    let before = signal.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let written = write();
    let exceeds = |error: &io::Error| error.raw_os_error() == Some(Errno::EFBIG as i32);
    let is_sent = written.as_ref().err().is_some_and(exceeds);
    // Where it cannot be taken, it stays blocked in this thread.
    if !is_sent || take(&signal).is_ok() {
        before.thread_set_mask()?;
    }
    written
}

fn take(signal: &SigSet) -> nix::Result<()> {
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    SignalFd::with_flags(signal, flags)?.read_signal().map(drop)
}
