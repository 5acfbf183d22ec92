//! The calls that every Unix has.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;

use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::signal::killpg;
use nix::unistd::{AccessFlags, faccessat, getpgid};

use super::{Pid, Signal};

/// The search path where the server's environment has no `PATH`, as of a shell.
pub const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Returns whether a name is not looked up in `PATH`.
pub fn names_a_path(program: &OsStr) -> bool {
    program.as_bytes().contains(&b'/')
}

/// Returns the files that a name may mean: here the one of this name.
pub fn spellings(path: &Path, _: &BTreeMap<OsString, OsString>) -> Option<PathBuf> {
    Some(path.to_owned())
}

/// Returns a variable of an environment.
pub fn variable<'a>(env: &'a BTreeMap<OsString, OsString>, name: &str) -> Option<&'a OsStr> {
    env.get(OsStr::new(name)).map(OsString::as_os_str)
}

/// Returns the limit that was reached by this error.
pub fn limit_of(error: &io::Error) -> Option<&'static str> {
    Some(match error.raw_os_error()? {
        libc::EAGAIN => {
            "processes and threads of this user or control group (RLIMIT_NPROC, pids.max)"
        }
        libc::EMFILE => "open files of the host (RLIMIT_NOFILE)",
        libc::ENFILE => "open files of this machine (fs.file-max)",
        libc::ENOMEM => "memory",
        libc::E2BIG => "size of arguments and environment (ARG_MAX)",
        _ => return None,
    })
}

/// Returns whether this process may execute the file, with its effective ids.
pub fn may_execute(path: &Path) -> bool {
    may(path, AccessFlags::X_OK)
}

/// Returns whether this process may write to the file, with its effective ids.
#[cfg(target_os = "linux")]
pub fn may_write(path: &Path) -> bool {
    may(path, AccessFlags::W_OK)
}

fn may(path: &Path, access: AccessFlags) -> bool {
    faccessat(nix::fcntl::AT_FDCWD, path, access, AtFlags::AT_EACCESS).is_ok()
}

/// Signals a process group by number. Only sound while the number cannot be reused: its leader is
/// our child and not reaped.
pub(super) fn signal_group(leader: Pid, signal: Signal) -> Result<(), Errno> {
    let mut all = signal.all().iter();
    all.try_for_each(|signal| match killpg(leader.raw(), *signal) {
        // macOS returns EPERM when only zombies are left in the group.
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(Errno::EPERM) if cfg!(target_os = "macos") => Ok(()),
        Err(errno) => Err(errno),
    })
}

/// Returns whether the group is empty, without even a zombie; `false` if the number was reused.
pub(super) fn group_is_empty(leader: Pid) -> bool {
    killpg(leader.raw(), None) == Err(Errno::ESRCH)
}

/// Returns whether a process is in a group, alive or a zombie. Never blocks.
pub fn is_in_group(pid: Pid, group: Pid) -> bool {
    getpgid(Some(pid.raw())) == Ok(group.raw())
}

/// Returns whether SIGCHLD is ignored: the kernel reaps children by itself, and reuses their pids.
#[cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "only held children are asked for")
)]
pub(super) fn children_vanish() -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: nothing is set, and there is room for what is written.
    let asked = unsafe { libc::sigaction(libc::SIGCHLD, ptr::null(), action.as_mut_ptr()) };
    // SAFETY: zeroes are valid for it, and so is what the system wrote.
    let action = unsafe { action.assume_init() };
    asked != 0 || action.sa_sigaction == libc::SIG_IGN || action.sa_flags & libc::SA_NOCLDWAIT != 0
}
