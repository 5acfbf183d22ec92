//! The system calls the guardian makes, as safe functions. All `unsafe` code of the program is in this module.
//!
//! There is no libc to ask: a call is a number, at most six words, and a result that is an error when it is in -4095..0.

mod args;
mod file;
mod once;
mod order;
mod process;
mod signal;
mod types;

pub(crate) use args::{keep_last_variable, release};
use freestanding as arch;
pub(crate) use freestanding::Args;
pub(crate) use file::{
    become_stream, chdir, close_copy, close_range, date, fchdir, getdents, inherited, now, open, open_directory, open_in, open_to_write, pipe, poll,
    read, recv, remove_directory, seek_back, send, shutdown_sending, unlink, write,
};
pub(crate) use once::Once;
pub(crate) use order::{Order, receive_order};
pub(crate) use process::{
    become_subreaper, die_by, die_with_parent, effective_ids, exec, exit, forbid_forks, fork, fork_into,
    fork_into_namespace, getpid, getpid_of_init, getppid,
    is_own_child, lead_group, next_dead, reap, reap_one, set_name, setsid,
};
pub(crate) use signal::{
    block, block_all_signals, default_all_signals, exists, kill, kill_group, next_signal, pidfd_open,
    pidfd_send_signal, signalfd, unblock_all_signals,
};
pub(crate) use types::{Errno, Fd, Fork, Nanos, Pid, PollFd, Reaped, Result, Signal, Signals};

const O_CLOEXEC: usize = 0o2_000_000;
const O_NONBLOCK: usize = 0o4_000;
const SIGCHLD: usize = 17;

fn check(result: isize) -> Result<usize> {
    if result < 0 {
        Err(Errno(i32::try_from(-result).unwrap_or(Errno::EINVAL.0)))
    } else {
        Ok(result.cast_unsigned())
    }
}

/// Makes a call, and makes it again for as long as it is interrupted: no caller could take that for an answer, and what has woken the guardian
/// is taken note of only once.
///
/// # Safety
///
/// As of [`arch::syscall`].
unsafe fn syscall(number: usize, arguments: [usize; 6]) -> isize {
    loop {
        // SAFETY: the caller's contract.
        let result = unsafe { arch::syscall(number, arguments) };
        if check(result) != Err(Errno::EINTR) {
            return result;
        }
    }
}

/// Sign-extends, as the kernel expects -1.
fn word(number: i32) -> usize {
    (number as isize).cast_unsigned()
}

/// A call that takes numbers only and does not touch our memory; which calls those are is known by reading this directory.
fn scalar(number: usize, a: usize, b: usize, c: usize, d: usize) -> Result<usize> {
    // SAFETY: no caller in this directory passes a pointer, and none of their calls maps, unmaps or writes memory.
    check(unsafe { syscall(number, [a, b, c, d, 0, 0]) })
}
