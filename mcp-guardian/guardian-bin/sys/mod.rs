//! The program's system calls as safe functions; all its `unsafe` code.
//!
//! Without libc, a call is a number and at most six words, and a result in -4095..0 is an error.

#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
mod arch;
mod args;
mod file;
mod mem;
mod process;
mod restrict;
mod signal;
mod socket;
mod statics;
mod types;

use core::ffi::CStr;

pub(crate) use args::*;
pub(crate) use file::*;
pub(crate) use process::*;
pub(crate) use restrict::*;
pub(crate) use signal::*;
pub(crate) use socket::*;
pub(crate) use statics::*;
pub(crate) use types::*;

const O_CLOEXEC: usize = 0o2_000_000;
const O_NONBLOCK: usize = 0o4_000;

fn check(result: isize) -> Result<usize> {
    if result < 0 {
        Err(Errno(i32::try_from(-result).unwrap_or(Errno::EINVAL.0)))
    } else {
        Ok(result.cast_unsigned())
    }
}

/// Makes a call, and repeats it while it is interrupted.
///
/// # Safety
///
/// Same as [`arch::syscall`].
unsafe fn syscall(number: usize, arguments: [usize; 6]) -> Result<usize> {
    loop {
        // SAFETY: the caller's contract.
        let result = check(unsafe { arch::syscall(number, arguments) });
        if result != Err(Errno::EINTR) {
            return result;
        }
    }
}

/// Sign-extends, so that -1 stays -1.
fn word(number: i32) -> usize {
    (number as isize).cast_unsigned()
}

/// Makes a call that takes only numbers and does not touch our memory; all its callers are in this
/// directory.
fn scalar(number: usize, a: usize, b: usize, c: usize, d: usize) -> Result<usize> {
    // SAFETY: no caller in this directory passes a pointer, and none of their calls maps, unmaps or writes memory.
    unsafe { syscall(number, [a, b, c, d, 0, 0]) }
}

/// Makes a call that reads a path in a directory, followed by flags.
fn at(number: usize, directory: i32, path: &CStr, flags: usize) -> Result<usize> {
    // SAFETY: `path` is terminated, and the calls of this directory only read it.
    unsafe { syscall(number, [word(directory), path.as_ptr() as usize, flags, 0, 0, 0]) }
}

/// Makes a call that fills a buffer from a descriptor, followed by flags.
fn fill(number: usize, fd: &Fd, buffer: &mut [u8], flags: usize) -> Result<usize> {
    let (start, len) = (buffer.as_mut_ptr() as usize, buffer.len());
    // SAFETY: the kernel writes at most `len` bytes into the buffer.
    unsafe { syscall(number, [word(fd.0), start, len, flags, 0, 0]) }
}

fn opened(fd: Result<usize>) -> Result<Fd> {
    fd.map(|fd| Fd(fd as i32))
}
