//! System calls of a process that another process answers. With `asked`, all
//! `unsafe` code of this test.

#[path = "../common/asked.rs"]
mod asked;

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::libc::{self, c_long};
use nix::sys::signal::Signal;

pub(crate) use asked::{Call, Listener};
use asked::{EQUALS, LOAD, NUMBER, RETURN, step};

/// The descriptor over which a host and its supervisor talk. Calls on it are
/// never asked about.
pub(crate) const CHANNEL: RawFd = 900;

/// Calls that cannot fail, or whose failure no program can survive: memory,
/// locks, signals, waiting, exits. A `close` that is answered with an error would
/// not have closed, which Linux never does.
const NEVER: &[c_long] = &[
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_epoll_pwait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_madvise,
    libc::SYS_mprotect,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_sigaltstack,
];

/// Has every call of this process, and of all that come from it, asked about
/// from now on. The process must have one thread.
pub(crate) fn install() -> io::Result<OwnedFd> {
    /// Where `struct seccomp_data` has the first argument.
    const FIRST: u32 = 16;
    let mut program = vec![step(LOAD, 0, FIRST)];
    let to_allow = |at: usize| u8::try_from(NEVER.len() + 3 - at).unwrap();
    program.push(step(EQUALS, to_allow(1), CHANNEL.unsigned_abs()));
    program.push(step(LOAD, 0, NUMBER));
    for number in NEVER {
        let jump = to_allow(program.len());
        program.push(step(EQUALS, jump, u32::try_from(*number).unwrap()));
    }
    program.push(step(RETURN, 0, libc::SECCOMP_RET_USER_NOTIF));
    program.push(step(RETURN, 0, libc::SECCOMP_RET_ALLOW));
    asked::install(program)
}

/// Takes the listener `number` from the process `host`, a child of ours.
pub(crate) fn take(host: i32, number: RawFd) -> io::Result<Listener> {
    // SAFETY: the call takes numbers only.
    let pidfd = unsafe { libc::syscall(libc::SYS_pidfd_open, host, 0) };
    let pidfd = RawFd::try_from(Errno::result(pidfd)?).unwrap();
    // SAFETY: the kernel has just created it for us.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    // SAFETY: the call takes numbers only.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_getfd, pidfd.as_raw_fd(), number, 0) };
    let fd = RawFd::try_from(Errno::result(fd)?).unwrap();
    // SAFETY: the kernel has just created it for us.
    let listener = Listener::from(unsafe { OwnedFd::from_raw_fd(fd) });
    stay_on_one_core(&listener);
    Ok(listener)
}

/// Has caller and answerer take turns on one core, since one of them always
/// waits for the other. Best effort: Linux 6.6.
fn stay_on_one_core(listener: &Listener) {
    /// `SECCOMP_IOCTL_NOTIF_SET_FLAGS`, which libc does not have yet.
    const SET_FLAGS: libc::Ioctl = 0x4008_2104;
    const SYNC_WAKE_UP: u64 = 1;
    // SAFETY: the call takes numbers only.
    let _ = unsafe { libc::ioctl(listener.as_fd().as_raw_fd(), SET_FLAGS, SYNC_WAKE_UP) };
}

/// Orphans of what this process starts become its children.
pub(crate) fn become_subreaper() {
    // SAFETY: the call takes numbers only.
    let result = unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
    assert_eq!(result, 0);
}

/// Sends a signal to one thread, as the kernel does.
pub(crate) fn signal_thread(process: i32, thread: u32, signal: Signal) {
    // SAFETY: the call takes numbers only.
    let _ = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal as i32) };
}

/// Puts `fd` where the host talks to its supervisor, closed on exec.
pub(crate) fn put_channel(fd: impl AsFd) {
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: nothing of this process is open under that number.
    let result = unsafe { libc::dup3(fd, CHANNEL, libc::O_CLOEXEC) };
    assert_eq!(result, CHANNEL);
}

/// The channel, in the host.
pub(crate) fn channel() -> std::mem::ManuallyDrop<std::fs::File> {
    // SAFETY: it is open from the beginning of the host to its end, and this
    // value never closes it.
    std::mem::ManuallyDrop::new(unsafe { std::fs::File::from_raw_fd(CHANNEL) })
}

/// A copy of this process, which has one thread: `None` in the copy.
pub(crate) fn fork() -> Option<nix::unistd::Pid> {
    // SAFETY: there is no other thread that could hold a lock.
    match unsafe { nix::unistd::fork() }.unwrap() {
        nix::unistd::ForkResult::Parent { child } => Some(child),
        nix::unistd::ForkResult::Child => None,
    }
}
