//! Sends, blocks and receives signals.

use super::arch::nr;
use super::{Errno, Fd, O_CLOEXEC, O_NONBLOCK, Pid, Result, Signal, Signals, opened, scalar, syscall, word};

// The same on every architecture.
const PIDFD_SEND_SIGNAL: usize = 424;
const PIDFD_OPEN: usize = 434;
const PIDFD_GETFD: usize = 438;

pub(crate) fn kill(pid: Pid, signal: Signal) -> Result<()> {
    scalar(nr::KILL, word(pid.raw()), signal.word(), 0, 0).map(|_| ())
}

/// Signals every process but this one.
pub(crate) fn kill_all(signal: Signal) {
    let _ = scalar(nr::KILL, word(-1), signal.word(), 0, 0);
}

pub(crate) fn exists(pid: Pid) -> bool {
    scalar(nr::KILL, word(pid.raw()), 0, 0, 0) != Err(Errno::ESRCH)
}

pub(crate) fn kill_group(leader: Pid, signal: Signal) -> Result<()> {
    scalar(nr::KILL, word(-leader.raw()), signal.word(), 0, 0).map(|_| ())
}

pub(crate) fn pidfd_open(pid: u32) -> Result<Fd> {
    opened(scalar(PIDFD_OPEN, pid as usize, 0, 0, 0))
}

/// Returns a copy of another process's descriptor.
pub(crate) fn pidfd_getfd(pidfd: &Fd, number: u32) -> Result<Fd> {
    opened(scalar(PIDFD_GETFD, word(pidfd.0), number as usize, 0, 0))
}

pub(crate) fn pidfd_send_signal(pidfd: &Fd, signal: Signal) -> Result<()> {
    scalar(PIDFD_SEND_SIGNAL, word(pidfd.0), signal.word(), 0, 0).map(|_| ())
}

/// Blocks these signals, and no others.
pub(crate) fn block(signals: Signals) {
    const SIG_SETMASK: usize = 2;
    let mask = &raw const signals.0 as usize;
    // SAFETY: the kernel reads eight bytes from `mask`; the old mask is not requested.
    let _ = unsafe { syscall(nr::RT_SIGPROCMASK, [SIG_SETMASK, mask, 0, 8, 0, 0]) };
}

/// Resets every signal to its default: the server would inherit an ignored one, and an ignored
/// SIGCHLD would reap children.
pub(crate) fn default_all_signals() {
    /// SIGKILL and SIGSTOP have no other action.
    const FIXED: [usize; 2] = [9, 19];
    let default = [0_u64; 4];
    for signal in (1..=64).filter(|&signal| !FIXED.contains(&signal)) {
        // SAFETY: the kernel reads a `sigaction` of 32 bytes; all zero is the default action with no flags.
        let _ = unsafe { syscall(nr::RT_SIGACTION, [signal, default.as_ptr() as usize, 0, 8, 0, 0]) };
    }
}

/// Creates a descriptor that is readable when one of these blocked signals is pending.
pub(crate) fn signalfd(signals: Signals) -> Result<Fd> {
    let mask = &raw const signals.0 as usize;
    // SAFETY: the kernel reads eight bytes from the mask.
    opened(unsafe { syscall(nr::SIGNALFD4, [usize::MAX, mask, 8, O_CLOEXEC | O_NONBLOCK, 0, 0]) })
}

/// Returns a pending signal, and whether the kernel has sent it, as for a key of the terminal.
pub(crate) fn next_signal(signals: &Fd) -> Option<(Signal, bool)> {
    const SI_KERNEL: u8 = 0x80;
    let mut info = [0; 128];
    let len = super::read(signals, &mut info).ok()?;
    (len == info.len()).then_some((Signal::new(info[0]), info[8..12] == [SI_KERNEL, 0, 0, 0]))
}
