//! Descriptors, files, the control socket, and waiting.

use core::ffi::CStr;

use super::arch::{self, nr};
use super::types::Timespec;
use super::{Fd, Nanos, O_CLOEXEC, O_NONBLOCK, PollFd, Result, check, scalar, syscall, word};

// The same on every architecture.
const CLOSE_RANGE: usize = 436;
const MSG_DONTWAIT: usize = 0x40;
const MSG_NOSIGNAL: usize = 0x4000;

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

pub(super) fn close(fd: i32) {
    // Not again when interrupted: it is closed, and its number may be another file's.
    // SAFETY: the call takes a number only.
    let _ = unsafe { arch::syscall(nr::CLOSE, [word(fd), 0, 0, 0, 0, 0]) };
}

/// Closes every descriptor in `first..=last`.
pub(crate) fn close_range(first: u32, last: u32) -> Result<()> {
    scalar(CLOSE_RANGE, first as usize, last as usize, 0, 0).map(|_| ())
}

/// A pipe, reading end first; both ends close on exec and do not block.
pub(crate) fn pipe() -> Result<(Fd, Fd)> {
    let mut ends = [0_i32; 2];
    // SAFETY: the kernel writes two i32 to `ends`.
    check(unsafe {
        syscall(
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
        syscall(
            nr::OPENAT,
            [word(AT_FDCWD), path.as_ptr() as usize, O_CLOEXEC, 0, 0, 0],
        )
    };
    check(fd).map(|fd| Fd(fd as i32))
}

/// A directory, and no link to one, in an open directory.
pub(crate) fn open_directory(directory: &Fd, name: &CStr) -> Result<Fd> {
    let flags = O_CLOEXEC | arch::O_DIRECTORY | arch::O_NOFOLLOW;
    // SAFETY: `name` is terminated, and the kernel only reads it.
    let fd = unsafe {
        syscall(
            nr::OPENAT,
            [word(directory.0), name.as_ptr() as usize, flags, 0, 0, 0],
        )
    };
    check(fd).map(|fd| Fd(fd as i32))
}

/// A file, and no link to one, in an open directory.
pub(crate) fn open_in(directory: &Fd, name: &CStr) -> Result<Fd> {
    let flags = O_CLOEXEC | arch::O_NOFOLLOW;
    // SAFETY: `name` is terminated, and the kernel only reads it.
    let fd = unsafe {
        syscall(
            nr::OPENAT,
            [word(directory.0), name.as_ptr() as usize, flags, 0, 0, 0],
        )
    };
    check(fd).map(|fd| Fd(fd as i32))
}

/// Removes a file from a directory.
pub(crate) fn unlink(directory: &Fd, name: &CStr) -> Result<()> {
    unlinkat(directory, name, 0)
}

/// Removes an empty directory from a directory.
pub(crate) fn remove_directory(directory: &Fd, name: &CStr) -> Result<()> {
    const AT_REMOVEDIR: usize = 0x200;
    unlinkat(directory, name, AT_REMOVEDIR)
}

fn unlinkat(directory: &Fd, name: &CStr, flags: usize) -> Result<()> {
    // SAFETY: `name` is terminated, and the kernel only reads it.
    let result = unsafe {
        syscall(
            nr::UNLINKAT,
            [word(directory.0), name.as_ptr() as usize, flags, 0, 0, 0],
        )
    };
    check(result).map(|_| ())
}

pub(crate) fn open_to_write(path: &CStr) -> Result<Fd> {
    const AT_FDCWD: i32 = -100;
    const O_WRONLY: usize = 1;
    // SAFETY: `path` is terminated, and the kernel only reads it.
    let fd = unsafe {
        syscall(
            nr::OPENAT,
            [
                word(AT_FDCWD),
                path.as_ptr() as usize,
                O_CLOEXEC | O_WRONLY,
                0,
                0,
                0,
            ],
        )
    };
    check(fd).map(|fd| Fd(fd as i32))
}

/// Closes a descriptor whose owner, in a frame that never returns to it, is a copy of another process's.
pub(crate) fn close_copy(fd: &Fd) {
    close(fd.0);
}

pub(crate) fn read(fd: &Fd, buffer: &mut [u8]) -> Result<usize> {
    // SAFETY: the kernel writes at most `len` bytes into the buffer.
    check(unsafe {
        syscall(
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

/// Goes back by so many bytes, from where it is read and written.
pub(crate) fn seek_back(fd: &Fd, bytes: usize) -> Result<()> {
    const SEEK_CUR: usize = 1;
    scalar(nr::LSEEK, word(fd.0), bytes.wrapping_neg(), SEEK_CUR, 0).map(|_| ())
}

pub(crate) fn write(fd: &Fd, bytes: &[u8]) -> Result<usize> {
    // SAFETY: the kernel reads at most `len` bytes.
    check(unsafe {
        syscall(
            nr::WRITE,
            [word(fd.0), bytes.as_ptr() as usize, bytes.len(), 0, 0, 0],
        )
    })
}

/// Directory entries into `buffer`; see [`crate::procfs`] for their layout.
pub(crate) fn getdents(fd: &Fd, buffer: &mut [u8]) -> Result<usize> {
    // SAFETY: the kernel writes at most `len` bytes into the buffer.
    check(unsafe {
        syscall(
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

pub(crate) fn chdir(path: &CStr) -> Result<()> {
    // SAFETY: `path` is terminated, and the kernel only reads it.
    check(unsafe { syscall(nr::CHDIR, [path.as_ptr() as usize, 0, 0, 0, 0, 0]) }).map(|_| ())
}

pub(crate) fn fchdir(directory: &Fd) -> Result<()> {
    scalar(nr::FCHDIR, word(directory.0), 0, 0, 0).map(|_| ())
}

/// Puts a copy of `fd` in the place of a standard stream, for exec to inherit.
pub(crate) fn become_stream(fd: &Fd, stream: i32) -> Result<()> {
    scalar(nr::DUP3, word(fd.0), word(stream), 0, 0).map(|_| ())
}

pub(crate) fn send(socket: &Fd, message: &[u8]) -> Result<usize> {
    let (start, len) = (message.as_ptr() as usize, message.len());
    // SAFETY: the kernel reads at most `len` bytes; there is no address.
    check(unsafe {
        syscall(
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

/// Nothing more is said there; what comes is still heard.
pub(crate) fn shutdown_sending(socket: &Fd) {
    const SHUT_WR: usize = 1;
    let _ = scalar(nr::SHUTDOWN, word(socket.0), SHUT_WR, 0, 0);
}

pub(crate) fn recv(socket: &Fd, buffer: &mut [u8]) -> Result<usize> {
    let (start, len) = (buffer.as_mut_ptr() as usize, buffer.len());
    // SAFETY: the kernel writes at most `len` bytes into the buffer; no address is asked for.
    check(unsafe {
        syscall(
            nr::RECVFROM,
            [word(socket.0), start, len, MSG_DONTWAIT, 0, 0],
        )
    })
}

/// Waits for one of `fds`, for ever without a timeout.
pub(crate) fn poll(fds: &mut [PollFd], timeout: Option<Nanos>) {
    let mut timeout = timeout.map(|Nanos(nanos)| Timespec {
        seconds: (nanos / 1_000_000_000).cast_signed(),
        nanos: (nanos % 1_000_000_000).cast_signed(),
    });
    let time = timeout
        .as_mut()
        .map_or(0, |time| core::ptr::from_mut(time) as usize);
    // SAFETY: the kernel writes into the `revents` of `len` entries, and the time that is left into the timespec. The mask is not changed.
    let _ = unsafe {
        syscall(
            nr::PPOLL,
            [fds.as_mut_ptr() as usize, fds.len(), time, 0, 8, 0],
        )
    };
}

/// The monotonic clock.
pub(crate) fn now() -> Nanos {
    clock(1)
}

/// The clock of people, since 1970.
pub(crate) fn date() -> Nanos {
    clock(0)
}

fn clock(which: usize) -> Nanos {
    let mut time = Timespec {
        seconds: 0,
        nanos: 0,
    };
    // SAFETY: the kernel writes one timespec.
    let _ = unsafe {
        syscall(
            nr::CLOCK_GETTIME,
            [which, &raw mut time as usize, 0, 0, 0, 0],
        )
    };
    Nanos(time.seconds.cast_unsigned() * 1_000_000_000 + time.nanos.cast_unsigned())
}
