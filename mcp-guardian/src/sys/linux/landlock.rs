//! Rules of landlock(7), which a process restricts itself and all its descendants to.

use std::ffi::c_long;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

use nix::errno::Errno;

const WRITE_FILE: u64 = 1 << 1;
/// The right to make and remove directories, and to rename from one to another: every rule refuses
/// the last, unless it is allowed.
const CHANGE_DIRECTORY: u64 = 1 << 4 | 1 << 7 | 1 << 13;
const SIGNALS: u64 = 1 << 1;

/// Returns the version of the kernel's rules. The sixth has scoped signals.
pub fn rules_version() -> io::Result<i32> {
    create(&[], 1)
}

/// Creates rules: no signal to a process outside of them, and nothing written that is not allowed.
pub fn rules() -> io::Result<OwnedFd> {
    // For files, for the network, and what is scoped.
    let fd = create(&[WRITE_FILE | CHANGE_DIRECTORY, 0, SIGNALS], 0)?;
    // SAFETY: it is new, and nothing else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn create(handled: &[u64], flags: u32) -> io::Result<RawFd> {
    let (number, size) = (libc::SYS_landlock_create_ruleset, size_of_val(handled));
    let handled = match size {
        0 => std::ptr::null(),
        _ => handled.as_ptr(),
    };
    // SAFETY: the kernel reads `size` bytes.
    let created = unsafe { libc::syscall(number, handled, size, flags) };
    Ok(Errno::result(created)? as RawFd)
}

/// Allows writes to an open file, or to all below an open directory.
pub fn allow(rules: &OwnedFd, path: impl AsFd, is_directory: bool) -> io::Result<()> {
    const PATH_BENEATH: c_long = 1;
    #[repr(C, packed)]
    struct Rule(u64, RawFd);
    let directory = u64::from(is_directory) * CHANGE_DIRECTORY;
    let rule = Rule(WRITE_FILE | directory, path.as_fd().as_raw_fd());
    let (number, rules) = (libc::SYS_landlock_add_rule, rules.as_raw_fd());
    // SAFETY: the kernel reads the rule, which has its layout.
    let added = unsafe { libc::syscall(number, rules, PATH_BENEATH, &raw const rule, 0) };
    Ok(Errno::result(added).map(drop)?)
}
