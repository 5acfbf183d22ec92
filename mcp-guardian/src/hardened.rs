//! Keeps a server that resists away from its guardian, its host and its cgroup, and from all files
//! that it is not to write, by rules of landlock(7).
//!
//! The host makes the rules, the guardian passes them on, and the server restricts itself to them
//! between fork and exec (`guardian-bin/sys/restrict.rs`, with what they do not reach). A hardened
//! server and its descendants can signal, trace and enter only each other, as root too; all others
//! reach them as before.
//!
//! Rules allow, and except nothing. So each file is allowed that lies beside the way from a writable
//! directory to a mount of a cgroup, and what is made or mounted in these directories (`/`, `/sys`,
//! `/sys/fs`) after the start is not. Read-only mounts would need a privilege, or a user namespace,
//! in which a server is another user.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

use crate::{cgroup, sys};

/// The devices that programs expect to write, besides what a server is given.
const ALWAYS: &str = "/dev/null /dev/zero /dev/full /dev/tty /dev/ptmx /dev/pts /dev/shm";

/// Returns why this machine cannot harden a server, or limit what it writes, with the remedy.
pub fn refusal(is_hardened: bool, is_limited: bool) -> Option<String> {
    let (least, remedy) = match is_hardened {
        true => (
            6,
            "Linux 6.12 has it; a PID namespace hides guardian and host as well",
        ),
        false if is_limited => (3, "Linux 6.2 has it"),
        false => return None,
    };
    let why = match sys::rules_version() {
        Ok(version) if version >= least => return None,
        Ok(version) => format!("this kernel's Landlock has version {version} instead of {least}"),
        Err(error) => format!("this kernel refuses Landlock: {error}"),
    };
    Some(format!("{why} ({remedy})"))
}

/// Makes the rules of a server that is hardened, or writes only below these paths; `None` if it is
/// neither. Reads `/proc/thread-self/mountinfo` and the directories above the mounts of cgroups.
pub fn rules(is_hardened: bool, writable: Option<&[PathBuf]>) -> io::Result<Option<OwnedFd>> {
    if !is_hardened && writable.is_none() {
        return Ok(None);
    }
    if let Some(why) = refusal(is_hardened, writable.is_some()) {
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    let rules = sys::Rules::new(writable.is_some(), is_hardened)?;
    let cgroups = is_hardened.then(cgroup::mounts).transpose()?;
    let cgroups = cgroups.unwrap_or_default();
    for path in writable.unwrap_or(&["/".into()]) {
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("`{}`: {error}", path.display()))
        };
        allow(&rules, &path.canonicalize().map_err(named)?, &cgroups)?;
    }
    // A sandbox of a browser writes its own files there; root writes the kernel's.
    let own = (!geteuid().is_root()).then_some("/proc");
    for path in ALWAYS.split(' ').chain(own) {
        let real = Path::new(path).canonicalize();
        tolerated(real.and_then(|real| allow(&rules, &real, &cgroups)))?;
    }
    Ok(Some(rules.fd))
}

/// Allows writes to a file, or to all below a directory but cgroups.
fn allow(rules: &sys::Rules, path: &Path, cgroups: &[PathBuf]) -> io::Result<()> {
    if cgroups.iter().any(|it| path.starts_with(it)) {
        return Ok(());
    }
    if !cgroups.iter().any(|it| it.starts_with(path)) {
        let flags = libc::O_PATH | libc::O_NOFOLLOW;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
        return rules.allow(&file?);
    }
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if !entry.file_type()?.is_symlink() {
            tolerated(allow(rules, &entry.path(), cgroups))?;
        }
    }
    Ok(())
}

/// Ignores that a path cannot be opened: it is not allowed then.
fn tolerated(allowed: io::Result<()>) -> io::Result<()> {
    allowed.or_else(|error| match sys::is_shortage(&error) {
        true => Err(error),
        false => Ok(()),
    })
}
