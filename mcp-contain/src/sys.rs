//! System calls without a safe function: signal dispositions, and signals by number. All `unsafe`
//! code of this program.

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{SigHandler, Signal, signal};

/// Resets SIGCHLD to its default, so that exits of children are reported and their pids stay
/// reserved until reaped. A host may have ignored SIGCHLD, which exec inherits. For the beginning
/// of a program.
pub(crate) fn be_told_of_children() -> Result<(), Errno> {
    // SAFETY: no handler is replaced that other code relies on.
    unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) }.map(drop)
}

/// Sends a signal to the calling thread by number: `nix` has no names for real-time signals.
pub(crate) fn raise(number: i32) {
    // SAFETY: it takes a number; an invalid signal is an error.
    let _ = unsafe { libc::raise(number) };
}

/// Duplicates the descriptor of this number, if it is open.
pub(crate) fn duplicate(number: i32) -> io::Result<OwnedFd> {
    // SAFETY: it takes numbers; one that is not open is an error.
    let copy = Errno::result(unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) })?;
    // SAFETY: it was opened just now, and nothing else has its number.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Signals that keep their disposition: faults, which would repeat for ever, and those that cannot
/// be caught or have other handlers.
#[cfg(feature = "docker")]
const LEFT_ALONE: [i32; 9] = [
    libc::SIGKILL,
    libc::SIGSTOP,
    libc::SIGCHLD,
    libc::SIGPIPE,
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
];

/// Installs an empty handler for every signal that would end or stop this process. Executed
/// programs are not affected: exec resets handlers, but not masks or ignored signals.
#[cfg(feature = "docker")]
pub(crate) fn be_deaf() -> Result<(), Errno> {
    extern "C" fn pass_over(_: i32) {}
    let pass_over: extern "C" fn(i32) = pass_over;
    // SAFETY: zeroes are valid: no flags and an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = pass_over as libc::sighandler_t;
    // Restarts interrupted calls.
    action.sa_flags = libc::SA_RESTART;
    let numbers = (1..=libc::SIGSYS).chain(libc::SIGRTMIN()..=libc::SIGRTMAX());
    for number in numbers.filter(|number| !LEFT_ALONE.contains(number)) {
        // SAFETY: the handler does nothing, so it may run at any time; the old action is not
        // requested.
        let done = unsafe { libc::sigaction(number, &raw const action, std::ptr::null_mut()) };
        Errno::result(done)?;
    }
    Ok(())
}
