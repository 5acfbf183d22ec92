//! Rules of landlock(7), which a process restricts itself and all its descendants to.

use std::ffi::c_long;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

use nix::errno::Errno;

const WRITE_FILE: u64 = 1 << 1;
/// The right to make and remove directories, and to rename from one to another: every rule refuses
/// the last, unless it is allowed.
const CHANGE_DIRECTORY: u64 = 1 << 4 | 1 << 7 | 1 << 13;
/// All rights to write, make, remove, rename, link and truncate.
const ALL_WRITES: u64 = 0x7ff2;
/// The right to control a device, since the fifth version.
const CONTROL_DEVICE: u64 = 1 << 15;
/// The right to make devices, through which the whole machine is written.
const MAKE_DEVICE: u64 = 1 << 6 | 1 << 11;
const OF_FILES: u64 = WRITE_FILE | 1 << 14 | CONTROL_DEVICE;
const SIGNALS: u64 = 1 << 1;

/// Returns the version of the kernel's rules. The third has truncation, the sixth scoped signals.
pub fn rules_version() -> io::Result<i32> {
    create(&[], 1)
}

/// Rules in the making: nothing is written that is not [allowed](Self::allow).
#[derive(Debug)]
pub struct Rules {
    pub fd: OwnedFd,
    handled: u64,
}

impl Rules {
    /// Creates rules for all writes, or for those that change cgroups; and against signals to a
    /// process outside of them.
    pub fn new(for_all_writes: bool, against_signals: bool) -> io::Result<Self> {
        let handled = match for_all_writes {
            false => WRITE_FILE | CHANGE_DIRECTORY,
            true if rules_version()? >= 5 => ALL_WRITES | CONTROL_DEVICE,
            true => ALL_WRITES,
        };
        // For files, for the network, and what is scoped.
        let fd = create(&[handled, 0, u64::from(against_signals) * SIGNALS], 0)?;
        // SAFETY: it is new, and nothing else has it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd, handled })
    }

    /// Allows writes to an open file, or to all below an open directory.
    pub fn allow(&self, path: &File) -> io::Result<()> {
        const PATH_BENEATH: c_long = 1;
        #[repr(C, packed)]
        struct Rule(u64, RawFd);
        let rights = match path.metadata()?.is_dir() {
            true => self.handled & !MAKE_DEVICE,
            false => self.handled & OF_FILES,
        };
        let rule = Rule(rights, path.as_raw_fd());
        let (number, rules) = (libc::SYS_landlock_add_rule, self.fd.as_raw_fd());
        // SAFETY: the kernel reads the rule, which has its layout.
        let added = unsafe { libc::syscall(number, rules, PATH_BENEATH, &raw const rule, 0) };
        Ok(Errno::result(added).map(drop)?)
    }
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
