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
use nix::sys::signal::{Signal as NixSignal, killpg};
use nix::unistd::{AccessFlags, faccessat, getpgid};

use super::{Pid, Signal};

/// Where to look when the server's environment has no `PATH`: what a shell
/// without one uses on the systems we know.
pub(crate) const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Returns whether a name is not looked up in `PATH`.
pub(crate) fn names_a_path(program: &OsStr) -> bool {
    program.as_bytes().contains(&b'/')
}

/// The files that a name may mean: the one of this name.
pub(crate) fn spellings(path: &Path, _: &BTreeMap<OsString, OsString>) -> Option<PathBuf> {
    Some(path.to_owned())
}

/// A variable of an environment.
pub(crate) fn variable<'a>(env: &'a BTreeMap<OsString, OsString>, name: &str) -> Option<&'a OsStr> {
    env.get(OsStr::new(name)).map(OsString::as_os_str)
}

/// The limit that this error says was reached.
pub(crate) fn limit_of(error: &io::Error) -> Option<&'static str> {
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
pub(crate) fn may_execute(path: &Path) -> bool {
    faccessat(
        nix::fcntl::AT_FDCWD,
        path,
        AccessFlags::X_OK,
        AtFlags::AT_EACCESS,
    )
    .is_ok()
}

/// Returns whether this process may write to the file, with its effective ids.
#[cfg(target_os = "linux")]
pub(crate) fn may_write(path: &Path) -> bool {
    faccessat(
        nix::fcntl::AT_FDCWD,
        path,
        AccessFlags::W_OK,
        AtFlags::AT_EACCESS,
    )
    .is_ok()
}

/// Signals a process group by number. Only sound while the number cannot be
/// reissued: its leader is our child and not reaped.
pub(super) fn signal_group(leader: Pid, signal: Signal) -> Result<(), Errno> {
    let send = |signal| match killpg(leader.raw(), signal) {
        // EPERM: macOS says so when only zombies are left in the group.
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(Errno::EPERM) if cfg!(target_os = "macos") => Ok(()),
        Err(errno) => Err(errno),
    };
    match signal {
        Signal::Terminate => {
            send(NixSignal::SIGTERM)?;
            send(NixSignal::SIGCONT)
        }
        Signal::Kill => send(NixSignal::SIGKILL),
    }
}

/// Returns whether nobody at all is in the group, not even a zombie. Harmless if the
/// number was reissued meanwhile; then the answer is "somebody".
pub(super) fn group_is_empty(leader: Pid) -> bool {
    killpg(leader.raw(), None) == Err(Errno::ESRCH)
}

/// Returns whether a process is in a group, alive or a zombie. Never blocks.
pub(crate) fn is_in_group(pid: Pid, group: Pid) -> bool {
    getpgid(Some(pid.raw())) == Ok(group.raw())
}

/// Returns whether the kernel reaps children of this process by itself, so that the number
/// of one may be somebody else's at any time: SIGCHLD is ignored.
#[cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "asked of who is held")
)]
pub(super) fn children_vanish() -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: nothing is set, and there is room for what is written.
    let asked = unsafe { libc::sigaction(libc::SIGCHLD, ptr::null(), action.as_mut_ptr()) };
    // SAFETY: zeroes are valid for it, and so is what the system wrote.
    let action = unsafe { action.assume_init() };
    asked != 0 || action.sa_sigaction == libc::SIG_IGN || action.sa_flags & libc::SA_NOCLDWAIT != 0
}
