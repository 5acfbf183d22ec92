//! Descriptors, files, and waiting.

use core::ffi::CStr;

use super::arch::{self, nr};
use super::types::Timespec;
use super::{Fd, O_CLOEXEC, O_NONBLOCK, PollFd, Result, at, fill, opened, scalar, syscall, word};

const AT_FDCWD: i32 = -100;

/// Takes over an inherited descriptor and sets close-on-exec. `None` if it is not open. Each number
/// is taken at most once.
pub(crate) fn inherited(fd: i32) -> Option<Fd> {
    const F_SETFD: usize = 2;
    const FD_CLOEXEC: usize = 1;
    let set = scalar(nr::FCNTL, word(fd), F_SETFD, FD_CLOEXEC, 0);
    set.ok().map(|_| Fd(fd))
}

/// Returns a descriptor that is readable at the end of this input, without reading it. It does not
/// keep the input open: once no process has it, the end is never reported. Fails for a file.
pub(crate) fn end_of(input: &Fd) -> Result<Fd> {
    const ADD: usize = 1;
    const RDHUP: u32 = 0x2000;
    #[cfg_attr(target_arch = "x86_64", repr(C, packed))]
    #[cfg_attr(not(target_arch = "x86_64"), repr(C))]
    struct Event {
        events: u32,
        data: u64,
    }
    let end = opened(scalar(nr::EPOLL_CREATE1, O_CLOEXEC, 0, 0, 0))?;
    let event = Event {
        events: RDHUP,
        data: 0,
    };
    let event = &raw const event as usize;
    // SAFETY: the kernel only reads `event`, which has its layout.
    unsafe { syscall(nr::EPOLL_CTL, [word(end.0), ADD, word(input.0), event, 0, 0]) }?;
    Ok(end)
}

pub(crate) fn close(fd: i32) {
    // Not repeated after an interrupt: it is closed, and its number may be reused.
    // SAFETY: the call takes a number only.
    let _ = unsafe { arch::syscall(nr::CLOSE, [word(fd), 0, 0, 0, 0, 0]) };
}

pub(crate) fn close_range(first: u32, last: u32) -> Result<()> {
    scalar(nr::CLOSE_RANGE, first as usize, last as usize, 0, 0).map(|_| ())
}

/// Creates a pipe, reading end first; both ends are close-on-exec and non-blocking.
pub(crate) fn pipe() -> Result<(Fd, Fd)> {
    let mut ends = [0_i32; 2];
    let start = ends.as_mut_ptr() as usize;
    // SAFETY: the kernel writes two i32 to `ends`.
    unsafe { syscall(nr::PIPE2, [start, O_CLOEXEC | O_NONBLOCK, 0, 0, 0, 0]) }?;
    Ok((Fd(ends[0]), Fd(ends[1])))
}

pub(crate) fn open(path: &CStr) -> Result<Fd> {
    opened(at(nr::OPENAT, AT_FDCWD, path, O_CLOEXEC))
}

pub(crate) fn open_to_write(path: &CStr) -> Result<Fd> {
    const O_WRONLY: usize = 1;
    opened(at(nr::OPENAT, AT_FDCWD, path, O_CLOEXEC | O_WRONLY))
}

/// Opens a file, but no link, in an open directory.
pub(crate) fn open_in(directory: &Fd, name: &CStr) -> Result<Fd> {
    opened(at(nr::OPENAT, directory.0, name, O_CLOEXEC | arch::O_NOFOLLOW))
}

pub(crate) fn read_link_in(directory: &Fd, name: &CStr, buffer: &mut [u8]) -> Result<usize> {
    let (name, start) = (name.as_ptr() as usize, buffer.as_mut_ptr() as usize);
    // SAFETY: `name` is terminated, and the kernel writes at most the length of the buffer.
    unsafe { syscall(nr::READLINKAT, [word(directory.0), name, start, buffer.len(), 0, 0]) }
}

/// Opens a directory, but no link, in an open directory.
pub(crate) fn open_directory(directory: &Fd, name: &CStr) -> Result<Fd> {
    let flags = O_CLOEXEC | arch::O_NOFOLLOW | arch::O_DIRECTORY;
    opened(at(nr::OPENAT, directory.0, name, flags))
}

pub(crate) fn unlink(directory: &Fd, name: &CStr) -> Result<()> {
    at(nr::UNLINKAT, directory.0, name, 0).map(|_| ())
}

pub(crate) fn remove_directory(directory: &Fd, name: &CStr) -> Result<()> {
    const AT_REMOVEDIR: usize = 0x200;
    at(nr::UNLINKAT, directory.0, name, AT_REMOVEDIR).map(|_| ())
}

pub(crate) fn read(fd: &Fd, buffer: &mut [u8]) -> Result<usize> {
    fill(nr::READ, fd, buffer, 0)
}

pub(crate) fn write(fd: &Fd, bytes: &[u8]) -> Result<usize> {
    let (start, len) = (bytes.as_ptr() as usize, bytes.len());
    // SAFETY: the kernel reads at most `len` bytes.
    unsafe { syscall(nr::WRITE, [word(fd.0), start, len, 0, 0, 0]) }
}

pub(crate) fn getdents(fd: &Fd, buffer: &mut [u8]) -> Result<usize> {
    fill(nr::GETDENTS64, fd, buffer, 0)
}

pub(crate) fn read_at(fd: &Fd, buffer: &mut [u8], at: usize) -> Result<usize> {
    fill(nr::PREAD64, fd, buffer, at)
}

/// Returns the new position. Fails for what has none, such as a pipe.
pub(crate) fn seek_back(fd: &Fd, bytes: usize) -> Result<usize> {
    const SEEK_CUR: usize = 1;
    scalar(nr::LSEEK, word(fd.0), bytes.wrapping_neg(), SEEK_CUR, 0)
}

pub(crate) fn chdir(path: &CStr) -> Result<()> {
    // SAFETY: `path` is terminated, and the kernel only reads it.
    unsafe { syscall(nr::CHDIR, [path.as_ptr() as usize, 0, 0, 0, 0, 0]) }.map(|_| ())
}

/// Waits for one of `fds`, at most for this many nanoseconds.
pub(crate) fn poll(fds: &mut [PollFd], limit: Option<u64>) {
    let mut limit = limit.map(|nanos| Timespec {
        seconds: (nanos / 1_000_000_000).cast_signed(),
        nanos: (nanos % 1_000_000_000).cast_signed(),
    });
    let time = limit.as_mut().map_or(0, |time| core::ptr::from_mut(time) as usize);
    // SAFETY: the kernel writes into the `revents` of `len` entries, and the remaining time into
    // the timespec. The mask is not changed.
    let _ = unsafe { syscall(nr::PPOLL, [fds.as_mut_ptr() as usize, fds.len(), time, 0, 8, 0]) };
}

pub(crate) fn now() -> u64 {
    clock(1)
}

pub(crate) fn date() -> u64 {
    clock(0)
}

fn clock(which: usize) -> u64 {
    let mut time = Timespec {
        seconds: 0,
        nanos: 0,
    };
    // SAFETY: the kernel writes one timespec.
    let _ = unsafe { syscall(nr::CLOCK_GETTIME, [which, &raw mut time as usize, 0, 0, 0, 0]) };
    time.seconds.cast_unsigned() * 1_000_000_000 + time.nanos.cast_unsigned()
}
