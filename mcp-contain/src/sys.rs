//! System calls without a safe function: signal dispositions, and signals by number. All `unsafe`
//! code of this program.

#[cfg(target_os = "linux")]
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::process::ExitCode;

use nix::errno::Errno;
use nix::libc;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigHandler, SigSet, Signal, signal};

/// Resets SIGCHLD to its default, so that exits of children are reported and their pids stay
/// reserved until reaped. A host may have ignored SIGCHLD, which exec inherits. For the beginning
/// of a program.
pub(crate) fn be_told_of_children() -> Result<(), Errno> {
    // SAFETY: no handler is replaced that other code relies on.
    unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) }.map(drop)
}

/// Ends this process by the signal, without a core file. The first process of a PID namespace
/// cannot: it returns the shell's code.
pub(crate) fn die_of(number: i32) -> ExitCode {
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    // SAFETY: no handler is replaced that anything relies on: this process ends.
    unsafe { libc::signal(number, libc::SIG_DFL) };
    let _ = SigSet::all().thread_unblock();
    send(std::process::id(), number);
    ExitCode::from(u8::try_from(128 + number).unwrap_or(125))
}

/// Sends a signal to this process or to a child that is not reaped.
pub(crate) fn send(pid: u32, number: i32) {
    // SAFETY: it takes numbers, since `nix` has no names for real-time signals.
    let _ = unsafe { libc::kill(pid.cast_signed(), number) };
}

/// Duplicates the descriptor of this number, if it is open.
#[cfg(target_os = "linux")]
pub(crate) fn duplicate(number: i32) -> io::Result<OwnedFd> {
    // SAFETY: it takes numbers; one that is not open is an error.
    let copy = Errno::result(unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) })?;
    // SAFETY: it was opened just now, and nothing else has its number.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Installs an empty handler for every signal that would end or stop this process.
#[cfg(target_os = "linux")]
pub(crate) fn be_deaf() -> Result<(), Errno> {
    extern "C" fn pass_over(_: i32) {}
    // SAFETY: the handler does nothing, so it may run at any time.
    unsafe { mcp_guardian::sys::handle_signals(pass_over, &[libc::SIGCHLD, libc::SIGPIPE]) }
}
