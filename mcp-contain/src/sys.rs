//! System calls for which nobody has a safe function: dispositions of signals. Every `unsafe` of this program is here.

use nix::errno::Errno;
#[cfg(feature = "docker")]
use nix::libc;
use nix::sys::signal::{SigHandler, Signal, signal};

/// Has the ends of children be told, and their numbers stay theirs until they are waited for, whatever the host has decided for itself: exec passes an
/// ignored SIGCHLD on. For the beginning of a program.
///
/// # Errors
///
/// None that is known.
pub(crate) fn be_told_of_children() -> Result<(), Errno> {
    // SAFETY: no handler is replaced that anybody relies on.
    unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) }.map(drop)
}

/// Signals that stay what they are: those of faults, which a program that goes on would meet for ever, and those that cannot be heard, or are heard by others.
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

/// Has every signal that asks this process to end, or to stop, do nothing. What it executes takes them as it would: a handler does not outlive exec, where
/// a mask or an ignored signal does.
///
/// # Errors
///
/// None that is known.
#[cfg(feature = "docker")]
pub(crate) fn be_deaf() -> Result<(), Errno> {
    extern "C" fn pass_over(_: i32) {}
    let pass_over: extern "C" fn(i32) = pass_over;
    // SAFETY: zeroes are valid for it: no flag, and an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = pass_over as libc::sighandler_t;
    // No call of this process is interrupted by one.
    action.sa_flags = libc::SA_RESTART;
    let numbers = (1..=libc::SIGSYS).chain(libc::SIGRTMIN()..=libc::SIGRTMAX());
    for number in numbers.filter(|number| !LEFT_ALONE.contains(number)) {
        // SAFETY: the handler does nothing at all, so it may run at any instant; the old action is not asked for.
        let done = unsafe { libc::sigaction(number, &raw const action, std::ptr::null_mut()) };
        Errno::result(done)?;
    }
    Ok(())
}
