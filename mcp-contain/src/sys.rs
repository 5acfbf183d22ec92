//! System calls for which nobody has a safe function: dispositions of signals. Every `unsafe` of this program is here.

use nix::errno::Errno;
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
