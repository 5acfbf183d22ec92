//! Signals: sending, blocking, and learning of them.

use super::arch::nr;
use super::{Errno, Fd, O_CLOEXEC, O_NONBLOCK, Pid, Result, Signal, Signals, check, scalar, syscall, word};

// The same on every architecture.
const PIDFD_SEND_SIGNAL: usize = 424;
const PIDFD_OPEN: usize = 434;

pub(crate) fn kill(pid: Pid, signal: Signal) -> Result<()> {
    scalar(nr::KILL, word(pid.raw()), signal.word(), 0, 0).map(|_| ())
}

/// Whether any process has this number: a cheap question, which sends nothing.
pub(crate) fn exists(pid: Pid) -> bool {
    scalar(nr::KILL, word(pid.raw()), 0, 0, 0) != Err(Errno::ESRCH)
}

pub(crate) fn kill_group(leader: Pid, signal: Signal) -> Result<()> {
    scalar(nr::KILL, word(-leader.raw()), signal.word(), 0, 0).map(|_| ())
}

pub(crate) fn pidfd_open(pid: u32) -> Result<Fd> {
    scalar(PIDFD_OPEN, pid as usize, 0, 0, 0).map(|fd| Fd(fd as i32))
}

pub(crate) fn pidfd_send_signal(pidfd: &Fd, signal: Signal) -> Result<()> {
    scalar(PIDFD_SEND_SIGNAL, word(pidfd.0), signal.word(), 0, 0).map(|_| ())
}

fn set_mask(mask: u64) {
    const SIG_SETMASK: usize = 2;
    // SAFETY: the kernel reads eight bytes from `mask`; the old mask is not asked for.
    let _ = unsafe {
        syscall(
            nr::RT_SIGPROCMASK,
            [SIG_SETMASK, &raw const mask as usize, 0, 8, 0, 0],
        )
    };
}

/// Blocks these signals and no others.
pub(crate) fn block(signals: Signals) {
    set_mask(signals.0);
}

/// Blocks all signals but this one.
pub(super) fn block_all_but(signal: u32) {
    set_mask(!(1 << (signal - 1)));
}

pub(crate) fn block_all_signals() {
    set_mask(u64::MAX);
}

pub(crate) fn unblock_all_signals() {
    set_mask(0);
}

/// Every signal to its default: an ignored one would be inherited by the server, and an ignored SIGCHLD would reap behind our back.
pub(crate) fn default_all_signals() {
    let default = [0_u64; 4];
    for signal in 1..=64 {
        // SAFETY: the kernel reads a `sigaction` of 32 bytes; all zero is the default action with no flags.
        let _ = unsafe {
            syscall(
                nr::RT_SIGACTION,
                [signal, default.as_ptr() as usize, 0, 8, 0, 0],
            )
        };
    }
}

/// A descriptor that becomes readable when one of these signals, which are blocked, has come.
pub(crate) fn signalfd(signals: Signals) -> Result<Fd> {
    // SAFETY: the kernel reads eight bytes from the mask.
    let fd = unsafe {
        syscall(
            nr::SIGNALFD4,
            [
                usize::MAX,
                &raw const signals.0 as usize,
                8,
                O_CLOEXEC | O_NONBLOCK,
                0,
                0,
            ],
        )
    };
    check(fd).map(|fd| Fd(fd as i32))
}

/// The next signal that has come there.
pub(crate) fn next_signal(signals: &Fd) -> Option<Signal> {
    // A `signalfd_siginfo`, which begins with the number.
    let mut info = [0; 128];
    let len = super::read(signals, &mut info).ok()?;
    (len == info.len()).then_some(Signal::new(info[0]))
}
