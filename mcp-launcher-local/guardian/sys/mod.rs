//! The system calls the guardian makes, as safe functions. All `unsafe` code of the program is in this module.
//!
//! There is no libc to ask: a call is a number, at most six words, and a result that is an error when it is in -4095..0.

mod args;
mod mem;
mod once;
mod types;

#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
mod arch;

use core::ffi::CStr;

use arch::nr;
pub(crate) use args::{Args, entry};
pub(crate) use once::Once;
pub(crate) use types::{Errno, Fd, Fork, Nanos, Pid, PollFd, Reaped, Result, Signal};

const O_CLOEXEC: usize = 0o2_000_000;
const O_NONBLOCK: usize = 0o4_000;
const SIGCHLD: usize = 17;
const WNOHANG: usize = 1;
const WEXITED: usize = 4;
const WNOWAIT: usize = 0x0100_0000;
const WALL: usize = 0x4000_0000;

// The same on every architecture.
const PIDFD_SEND_SIGNAL: usize = 424;
const PIDFD_OPEN: usize = 434;
const CLOSE_RANGE: usize = 436;

fn check(result: isize) -> Result<usize> {
    if result < 0 {
        Err(Errno(i32::try_from(-result).unwrap_or(Errno::EINVAL.0)))
    } else {
        Ok(result.cast_unsigned())
    }
}

/// Sign-extends, as the kernel expects -1.
fn word(number: i32) -> usize {
    (number as isize).cast_unsigned()
}

/// A call that takes numbers only and does not touch our memory; which calls do not is known by reading this module.
fn scalar(number: usize, a: usize, b: usize, c: usize, d: usize) -> Result<usize> {
    // SAFETY: no caller below passes a pointer, and none of their calls maps, unmaps or writes memory.
    check(unsafe { arch::syscall(number, [a, b, c, d, 0, 0]) })
}

pub(crate) fn exit(code: i32) -> ! {
    loop {
        let _ = scalar(nr::EXIT_GROUP, word(code), 0, 0, 0);
    }
}

fn close(fd: i32) {
    let _ = scalar(nr::CLOSE, word(fd), 0, 0, 0);
}

/// Takes over a descriptor the program was started with, which no exec shall inherit. `None` if it is not open.
///
/// The only way to name a descriptor by its number: every number is taken at most once.
pub(crate) fn inherited(fd: i32) -> Option<Fd> {
    const F_SETFD: usize = 2;
    const FD_CLOEXEC: usize = 1;
    scalar(nr::FCNTL, word(fd), F_SETFD, FD_CLOEXEC, 0)
        .ok()
        .map(|_| Fd(fd))
}

/// Closes every descriptor in `first..=last`.
pub(crate) fn close_range(first: u32, last: u32) -> Result<()> {
    scalar(CLOSE_RANGE, first as usize, last as usize, 0, 0).map(|_| ())
}

pub(crate) fn getpid() -> u32 {
    scalar(nr::GETPID, 0, 0, 0, 0).unwrap_or(0) as u32
}

pub(crate) fn getppid() -> u32 {
    scalar(nr::GETPPID, 0, 0, 0, 0).unwrap_or(0) as u32
}

pub(crate) fn setsid() {
    let _ = scalar(nr::SETSID, 0, 0, 0, 0);
}

/// Makes `pid`, or the caller, the leader of a process group of its own.
pub(crate) fn lead_group(pid: Option<Pid>) {
    let _ = scalar(nr::SETPGID, pid.map_or(0, |pid| word(pid.raw())), 0, 0, 0);
}

/// Orphaned descendants become children of the caller.
pub(crate) fn become_subreaper() -> Result<()> {
    const PR_SET_CHILD_SUBREAPER: usize = 36;
    scalar(nr::PRCTL, PR_SET_CHILD_SUBREAPER, 1, 0, 0).map(|_| ())
}

/// The caller is killed when its parent's (only) thread ends.
pub(crate) fn die_with_parent() -> Result<()> {
    const PR_SET_PDEATHSIG: usize = 1;
    scalar(nr::PRCTL, PR_SET_PDEATHSIG, Signal::Kill as usize, 0, 0).map(|_| ())
}

/// The name that `ps` shows.
pub(crate) fn set_name(name: &CStr) {
    const PR_SET_NAME: usize = 15;
    // SAFETY: the kernel reads at most 16 bytes and stops at the terminator.
    let _ = unsafe { arch::syscall(nr::PRCTL, [PR_SET_NAME, name.as_ptr() as usize, 0, 0, 0, 0]) };
}

pub(crate) fn pidfd_open(pid: u32) -> Result<Fd> {
    scalar(PIDFD_OPEN, pid as usize, 0, 0, 0).map(|fd| Fd(fd as i32))
}

pub(crate) fn pidfd_send_signal(pidfd: &Fd, signal: Signal) -> Result<()> {
    scalar(PIDFD_SEND_SIGNAL, word(pidfd.0), signal as usize, 0, 0).map(|_| ())
}

pub(crate) fn kill(pid: Pid, signal: Signal) -> Result<()> {
    scalar(nr::KILL, word(pid.raw()), signal as usize, 0, 0).map(|_| ())
}

pub(crate) fn kill_group(leader: Pid, signal: Signal) -> Result<()> {
    scalar(nr::KILL, word(-leader.raw()), signal as usize, 0, 0).map(|_| ())
}

/// Whether `pid` is a child that the caller has not reaped: as long as it is, the number cannot become another process.
pub(crate) fn is_own_child(pid: Pid) -> bool {
    const P_PID: usize = 1;
    // The fourth word is the options; the third, where the details would go, may be null.
    scalar(
        nr::WAITID,
        P_PID,
        word(pid.raw()),
        0,
        WEXITED | WNOHANG | WNOWAIT | WALL,
    )
    .is_ok()
}

/// Creates a child with a copy of this address space.
pub(crate) fn fork() -> Result<Fork> {
    let child = scalar(nr::CLONE, SIGCHLD, 0, 0, 0)?;
    match (child, Pid::new(child as u32)) {
        (0, _) => Ok(Fork::Child),
        (_, Some(pid)) => Ok(Fork::Parent(pid)),
        (_, None) => Err(Errno::EINVAL),
    }
}

/// Reaps one child if one has exited.
pub(crate) fn reap() -> Reaped {
    let mut status = 0_i32;
    // SAFETY: the kernel writes one i32 to `status`; no resource usage is asked for.
    let result = unsafe {
        arch::syscall(
            nr::WAIT4,
            [
                usize::MAX,
                &raw mut status as usize,
                WNOHANG | WALL,
                0,
                0,
                0,
            ],
        )
    };
    match check(result) {
        Ok(0) => Reaped::NoneYet,
        Ok(pid) => Reaped::Child(pid as u32, status),
        Err(Errno::ECHILD) => Reaped::NoChildren,
        Err(_) => Reaped::NoneYet,
    }
}

fn set_mask(mask: u64) {
    const SIG_SETMASK: usize = 2;
    // SAFETY: the kernel reads eight bytes from `mask`; the old mask is not asked for.
    let _ = unsafe {
        arch::syscall(
            nr::RT_SIGPROCMASK,
            [SIG_SETMASK, &raw const mask as usize, 0, 8, 0, 0],
        )
    };
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
            arch::syscall(
                nr::RT_SIGACTION,
                [signal, default.as_ptr() as usize, 0, 8, 0, 0],
            )
        };
    }
}

/// A descriptor that becomes readable when a child changes state.
pub(crate) fn signalfd_children() -> Result<Fd> {
    let mask = 1_u64 << (SIGCHLD - 1);
    // SAFETY: the kernel reads eight bytes from `mask`.
    let fd = unsafe {
        arch::syscall(
            nr::SIGNALFD4,
            [
                usize::MAX,
                &raw const mask as usize,
                8,
                O_CLOEXEC | O_NONBLOCK,
                0,
                0,
            ],
        )
    };
    check(fd).map(|fd| Fd(fd as i32))
}

/// A pipe, reading end first; both ends close on exec and do not block.
pub(crate) fn pipe() -> Result<(Fd, Fd)> {
    let mut ends = [0_i32; 2];
    // SAFETY: the kernel writes two i32 to `ends`.
    check(unsafe {
        arch::syscall(
            nr::PIPE2,
            [
                ends.as_mut_ptr() as usize,
                O_CLOEXEC | O_NONBLOCK,
                0,
                0,
                0,
                0,
            ],
        )
    })?;
    Ok((Fd(ends[0]), Fd(ends[1])))
}

pub(crate) fn open(path: &CStr) -> Result<Fd> {
    const AT_FDCWD: i32 = -100;
    // SAFETY: `path` is terminated, and the kernel only reads it.
    let fd = unsafe {
        arch::syscall(
            nr::OPENAT,
            [word(AT_FDCWD), path.as_ptr() as usize, O_CLOEXEC, 0, 0, 0],
        )
    };
    check(fd).map(|fd| Fd(fd as i32))
}

pub(crate) fn read(fd: &Fd, buffer: &mut [u8]) -> Result<usize> {
    // SAFETY: the kernel writes at most `len` bytes into the buffer.
    check(unsafe {
        arch::syscall(
            nr::READ,
            [
                word(fd.0),
                buffer.as_mut_ptr() as usize,
                buffer.len(),
                0,
                0,
                0,
            ],
        )
    })
}

pub(crate) fn write(fd: &Fd, bytes: &[u8]) -> Result<usize> {
    // SAFETY: the kernel reads at most `len` bytes.
    check(unsafe {
        arch::syscall(
            nr::WRITE,
            [word(fd.0), bytes.as_ptr() as usize, bytes.len(), 0, 0, 0],
        )
    })
}

/// Directory entries into `buffer`; see [`crate::procfs`] for their layout.
pub(crate) fn getdents(fd: &Fd, buffer: &mut [u8]) -> Result<usize> {
    // SAFETY: the kernel writes at most `len` bytes into the buffer.
    check(unsafe {
        arch::syscall(
            nr::GETDENTS64,
            [
                word(fd.0),
                buffer.as_mut_ptr() as usize,
                buffer.len(),
                0,
                0,
                0,
            ],
        )
    })
}

const MSG_DONTWAIT: usize = 0x40;
const MSG_NOSIGNAL: usize = 0x4000;

pub(crate) fn send(socket: &Fd, message: &[u8]) -> Result<usize> {
    let (start, len) = (message.as_ptr() as usize, message.len());
    // SAFETY: the kernel reads at most `len` bytes; there is no address.
    check(unsafe {
        arch::syscall(
            nr::SENDTO,
            [
                word(socket.0),
                start,
                len,
                MSG_DONTWAIT | MSG_NOSIGNAL,
                0,
                0,
            ],
        )
    })
}

pub(crate) fn recv(socket: &Fd, buffer: &mut [u8]) -> Result<usize> {
    let (start, len) = (buffer.as_mut_ptr() as usize, buffer.len());
    // SAFETY: the kernel writes at most `len` bytes into the buffer; no address is asked for.
    check(unsafe {
        arch::syscall(
            nr::RECVFROM,
            [word(socket.0), start, len, MSG_DONTWAIT, 0, 0],
        )
    })
}

/// Waits for one of `fds`, for ever without a timeout.
pub(crate) fn poll(fds: &mut [PollFd], timeout: Option<Nanos>) {
    let mut timeout = timeout.map(|Nanos(nanos)| types::Timespec {
        seconds: (nanos / 1_000_000_000).cast_signed(),
        nanos: (nanos % 1_000_000_000).cast_signed(),
    });
    let time = timeout
        .as_mut()
        .map_or(0, |time| core::ptr::from_mut(time) as usize);
    // SAFETY: the kernel writes into the `revents` of `len` entries and may update the timespec, which nothing reads again. The
    // mask is not changed.
    let _ = unsafe {
        arch::syscall(
            nr::PPOLL,
            [fds.as_mut_ptr() as usize, fds.len(), time, 0, 8, 0],
        )
    };
}

/// The monotonic clock.
pub(crate) fn now() -> Nanos {
    const CLOCK_MONOTONIC: usize = 1;
    let mut time = types::Timespec {
        seconds: 0,
        nanos: 0,
    };
    // SAFETY: the kernel writes one timespec.
    let _ = unsafe {
        arch::syscall(
            nr::CLOCK_GETTIME,
            [CLOCK_MONOTONIC, &raw mut time as usize, 0, 0, 0, 0],
        )
    };
    Nanos(time.seconds.cast_unsigned() * 1_000_000_000 + time.nanos.cast_unsigned())
}

/// Takes from `pid` the right to create processes (which the privileged have regardless).
pub(crate) fn forbid_forks(pid: Pid) {
    const RLIMIT_NPROC: usize = 6;
    let none = [0_u64; 2];
    // SAFETY: the kernel reads two u64; the old limit is not asked for.
    let _ = unsafe {
        arch::syscall(
            nr::PRLIMIT64,
            [
                word(pid.raw()),
                RLIMIT_NPROC,
                none.as_ptr() as usize,
                0,
                0,
                0,
            ],
        )
    };
}

pub(crate) fn chdir(path: &CStr) -> Result<()> {
    // SAFETY: `path` is terminated, and the kernel only reads it.
    check(unsafe { arch::syscall(nr::CHDIR, [path.as_ptr() as usize, 0, 0, 0, 0, 0]) }).map(|_| ())
}

/// Becomes the program at `path`, with the arguments from `skip` on and the environment of `args`. Returns on failure only.
pub(crate) fn exec(path: &CStr, args: &Args, skip: usize) -> Errno {
    let (argv, envp) = args.vectors(skip);
    // SAFETY: `path` is terminated, and both vectors are the null-terminated ones that the kernel itself put on our stack.
    let result = unsafe {
        arch::syscall(
            nr::EXECVE,
            [
                path.as_ptr() as usize,
                argv as usize,
                envp as usize,
                0,
                0,
                0,
            ],
        )
    };
    check(result).err().unwrap_or(Errno::EINVAL)
}
