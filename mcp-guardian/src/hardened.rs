//! Keeps a server that resists away from its guardian, its host and its cgroup, by rules of
//! landlock(7).
//!
//! The host makes the rules, the guardian passes them on, and the server restricts itself to them
//! between fork and exec (`guardian-bin/sys/restrict.rs`, with what they do not reach). It and its
//! descendants can signal, trace and enter only each other, as root too; all others reach them as
//! before.
//!
//! Rules allow, and except nothing. So each file is allowed that lies beside the way from `/` to a
//! mount of a cgroup, and what is made or mounted in these directories (`/`, `/sys`, `/sys/fs`)
//! after the start is not. Read-only mounts would need a privilege, or a user namespace, in which a
//! server is another user.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::{cgroup, sys};

/// Returns why this machine cannot harden a server, with the remedy.
pub fn refusal() -> Option<String> {
    const SCOPED_SIGNALS: i32 = 6;
    let why = match sys::rules_version() {
        Ok(SCOPED_SIGNALS..) => return None,
        Ok(version) => {
            format!("this kernel's Landlock has version {version} instead of {SCOPED_SIGNALS}")
        }
        Err(error) => format!("this kernel refuses Landlock: {error}"),
    };
    Some(format!(
        "{why} (Linux 6.12 has it; a PID namespace hides guardian and host as well)"
    ))
}

/// Makes the rules. Reads `/proc/thread-self/mountinfo` and the directories above the mounts.
pub fn rules() -> io::Result<OwnedFd> {
    if let Some(why) = refusal() {
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    let rules = sys::rules()?;
    let mounts: BTreeSet<_> = cgroup::mounts()?.into_iter().collect();
    let above: BTreeSet<&Path> = mounts
        .iter()
        .flat_map(|at| at.ancestors().skip(1))
        .collect();
    if mounts.is_empty() {
        allow(&rules, Path::new("/"), true)?;
    }
    let is_cgroup = |path: &Path| path.ancestors().any(|it| mounts.contains(it));
    for directory in above.iter().filter(|it| !is_cgroup(it)) {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            if !kind.is_symlink() && !above.contains(&*path) && !is_cgroup(&path) {
                allow(&rules, &path, kind.is_dir())?;
            }
        }
    }
    Ok(rules)
}

/// Allows what can be opened: nothing else can be written.
fn allow(rules: &OwnedFd, path: &Path, is_directory: bool) -> io::Result<()> {
    let flags = libc::O_PATH | libc::O_NOFOLLOW;
    match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => sys::allow(rules, file, is_directory),
        Err(error) if sys::is_shortage(&error) => Err(error),
        Err(_) => Ok(()),
    }
}
