//! The system calls of the program, as safe functions. All its `unsafe` code is
//! in this module.
//!
//! There is no libc to ask: a call is a number, at most six words, and a result
//! that is an error when it is in -4095..0.

mod args;

use freestanding as arch;
use freestanding::nr;
pub(crate) use args::{Args, exec};

// The same on every architecture.
pub(crate) const SIGTERM: i32 = 15;
pub(crate) const SIGCHLD: i32 = 17;
pub(crate) const SIGCONT: i32 = 18;
const O_CLOEXEC: usize = 0o2_000_000;
const O_NONBLOCK: usize = 0o4_000;
const EAGAIN: i32 = 11;

/// On which side of a fork one is.
pub(crate) enum Fork {
    Child,
    Parent(i32),
}

/// A child that has ended, with its wait status.
pub(crate) enum Reaped {
    Child(i32, i32),
    None,
}

#[repr(C)]
struct PollFd {
    fd: i32,
    events: i16,
    revents: i16,
}

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanos: i64,
}

fn check(result: isize) -> Result<usize, i32> {
    if result < 0 {
        Err(i32::try_from(-result).unwrap_or(i32::MAX))
    } else {
        Ok(result.cast_unsigned())
    }
}

/// Sign-extends, as the kernel expects -1.
fn word(number: i32) -> usize {
    (number as isize).cast_unsigned()
}

/// A call that takes numbers only and does not touch our memory.
fn scalar(number: usize, a: usize, b: usize, c: usize) -> Result<usize, i32> {
    // SAFETY: the callers below pass numbers that the kernel does not take for addresses.
    check(unsafe { arch::syscall(number, [a, b, c, 0, 0, 0]) })
}

pub(crate) fn exit(code: i32) -> ! {
    loop {
        let _ = scalar(nr::EXIT_GROUP, word(code), 0, 0);
    }
}

pub(crate) fn close(fd: i32) {
    let _ = scalar(nr::CLOSE, word(fd), 0, 0);
}

/// Closes all descriptors from this one on. Kernels before 5.9 are asked one by one.
pub(crate) fn close_from(first: i32) {
    const SOME: i32 = 4096;
    if scalar(nr::CLOSE_RANGE, word(first), usize::MAX >> 32, 0).is_err() {
        for fd in first..SOME {
            close(fd);
        }
    }
}

/// Creates a child with a copy of this address space.
pub(crate) fn fork() -> Result<Fork, i32> {
    match scalar(nr::CLONE, word(SIGCHLD), 0, 0)? {
        0 => Ok(Fork::Child),
        child => Ok(Fork::Parent(child as i32)),
    }
}

pub(crate) fn kill(pid: i32, signal: i32) {
    let _ = scalar(nr::KILL, word(pid), word(signal), 0);
}

fn set_mask(mask: u64) {
    const SIG_SETMASK: usize = 2;
    let mask = &raw const mask as usize;
    // SAFETY: the kernel reads eight bytes from `mask`; the old mask is not asked for.
    let _ = unsafe { arch::syscall(nr::RT_SIGPROCMASK, [SIG_SETMASK, mask, 0, 8, 0, 0]) };
}

pub(crate) fn block_all_signals() {
    set_mask(u64::MAX);
}

pub(crate) fn unblock_all_signals() {
    set_mask(0);
}

/// A descriptor that every signal is read from.
pub(crate) fn signalfd_all() -> Result<i32, i32> {
    let mask = u64::MAX;
    let mask = &raw const mask as usize;
    let flags = O_CLOEXEC | O_NONBLOCK;
    // SAFETY: the kernel reads eight bytes from `mask`.
    let fd = unsafe { arch::syscall(nr::SIGNALFD4, [usize::MAX, mask, 8, flags, 0, 0]) };
    check(fd).map(|fd| fd as i32)
}

/// The number of the next signal that has arrived.
pub(crate) fn next_signal(signals: i32) -> Option<i32> {
    let mut info = [0_u8; 128];
    let (start, len) = (info.as_mut_ptr() as usize, info.len());
    // SAFETY: the kernel writes at most `len` bytes into `info`.
    let read = unsafe { arch::syscall(nr::READ, [word(signals), start, len, 0, 0, 0]) };
    let [a, b, c, d, ..] = info;
    (check(read) == Ok(len)).then_some(i32::from_ne_bytes([a, b, c, d]))
}

const POLLIN: i16 = 1;
const POLLHUP: i16 = 0x10;

/// Waits for a hang-up of `input`, a signal, or the end of the time in
/// nanoseconds. Whether it was a hang-up.
pub(crate) fn wait_for(input: i32, signals: i32, limit: Option<u64>) -> bool {
    // Data is the server's: only the hang-up, which is always told.
    poll(input, 0, signals, limit) & POLLHUP != 0
}

/// Waits for data or the end of `input`, a signal, or the end of the time in nanoseconds.
/// Whether there is something to read, or nothing will be.
pub(crate) fn wait_for_data(input: i32, signals: i32, limit: u64) -> bool {
    poll(input, POLLIN, signals, Some(limit)) != 0
}

/// The events of `input`.
fn poll(input: i32, events: i16, signals: i32, limit: Option<u64>) -> i16 {
    let mut fds = [
        PollFd { fd: input, events, revents: 0 },
        PollFd { fd: signals, events: POLLIN, revents: 0 },
    ];
    let mut time = limit.map(|nanos| Timespec {
        seconds: (nanos / 1_000_000_000).cast_signed(),
        nanos: (nanos % 1_000_000_000).cast_signed(),
    });
    let time = time.as_mut().map_or(0, |time| core::ptr::from_mut(time) as usize);
    // SAFETY: the kernel writes into the `revents` of the entries and may update the timespec, which nothing reads again. The mask is not changed.
    let _ = unsafe { arch::syscall(nr::PPOLL, [fds.as_mut_ptr() as usize, fds.len(), time, 0, 8, 0]) };
    fds[0].revents
}

/// The monotonic clock, in nanoseconds.
pub(crate) fn now() -> u64 {
    const CLOCK_MONOTONIC: usize = 1;
    let mut time = Timespec { seconds: 0, nanos: 0 };
    let start = &raw mut time as usize;
    // SAFETY: the kernel writes one timespec.
    let _ = unsafe { arch::syscall(nr::CLOCK_GETTIME, [CLOCK_MONOTONIC, start, 0, 0, 0, 0]) };
    time.seconds.cast_unsigned() * 1_000_000_000 + time.nanos.cast_unsigned()
}

/// Reaps one child if one has ended.
pub(crate) fn reap() -> Reaped {
    const WNOHANG: usize = 1;
    const WALL: usize = 0x4000_0000;
    let mut status = 0_i32;
    let start = &raw mut status as usize;
    // SAFETY: the kernel writes one i32 to `status`; no resource usage is asked for.
    let pid = unsafe { arch::syscall(nr::WAIT4, [usize::MAX, start, WNOHANG | WALL, 0, 0, 0]) };
    match check(pid) {
        Ok(0) | Err(_) => Reaped::None,
        Ok(pid) => Reaped::Child(pid as i32, status),
    }
}

/// Lets so many nanoseconds pass.
pub(crate) fn sleep(nanos: u64) {
    // A negative descriptor is never ready.
    wait_for(-1, -1, Some(nanos));
}

/// How many bytes came; none at the end.
pub(crate) fn read(fd: i32, buffer: &mut [u8]) -> Result<usize, i32> {
    let (start, len) = (buffer.as_mut_ptr() as usize, buffer.len());
    // SAFETY: the kernel writes at most `len` bytes into `buffer`.
    check(unsafe { arch::syscall(nr::READ, [word(fd), start, len, 0, 0, 0]) })
}

/// How many bytes came, none at the end; `None` when nothing came by then.
pub(crate) fn read_by(fd: i32, buffer: &mut [u8], until: u64) -> Option<usize> {
    loop {
        match read(fd, buffer) {
            Err(EAGAIN) => {}
            other => return Some(other.unwrap_or(0)),
        }
        let left = until.checked_sub(now())?;
        wait_for(-1, fd, Some(left));
    }
}

pub(crate) fn write(fd: i32, text: &[u8]) -> Result<usize, i32> {
    let (start, len) = (text.as_ptr() as usize, text.len());
    // SAFETY: the kernel reads `len` bytes.
    check(unsafe { arch::syscall(nr::WRITE, [word(fd), start, len, 0, 0, 0]) })
}

#[repr(C)]
struct SocketAddress {
    family: u16,
    path: [u8; 108],
}

/// A connection to whoever listens at a path. One who has no place for another is
/// waited for until then.
fn connect(path: &[u8], until: u64) -> Result<i32, i32> {
    /// Between two looks for a place.
    const PAUSE: u64 = 5_000_000;
    const AF_UNIX: u16 = 1;
    const SOCK_STREAM: usize = 1;
    const ENAMETOOLONG: i32 = 36;
    let mut address = SocketAddress { family: AF_UNIX, path: [0; 108] };
    // The last byte stays zero.
    if path.len() >= address.path.len() {
        return Err(ENAMETOOLONG);
    }
    for (to, &byte) in address.path.iter_mut().zip(path) {
        *to = byte;
    }
    let kind = SOCK_STREAM | O_CLOEXEC | O_NONBLOCK;
    let socket = scalar(nr::SOCKET, AF_UNIX.into(), kind, 0)? as i32;
    let (start, len) = (&raw const address as usize, size_of::<SocketAddress>());
    loop {
        // SAFETY: the kernel reads `len` bytes, which are those of the address.
        let connected = unsafe { arch::syscall(nr::CONNECT, [word(socket), start, len, 0, 0, 0]) };
        match check(connected) {
            Ok(_) => return Ok(socket),
            Err(EAGAIN) if now() < until => sleep(PAUSE),
            Err(error) => {
                close(socket);
                return Err(error);
            }
        }
    }
}

/// Puts a request into the socket at a path, by then; the descriptor that the answer
/// comes from.
pub(crate) fn ask(path: &[u8], parts: &[&[u8]], until: u64) -> Option<i32> {
    let daemon = connect(path, until).ok()?;
    for part in parts {
        if write(daemon, part) != Ok(part.len()) {
            close(daemon);
            return None;
        }
    }
    Some(daemon)
}

/// Says it on standard error, if there is one.
pub(crate) fn complain(text: &[u8]) {
    let _ = write(2, text);
}
