//! Files and directories that nobody else can change, or put something in place of.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::unistd::geteuid;

/// Makes sure that nobody but this user and root can put something else at a
/// place in this directory.
///
/// It and every directory above it belong to one of the two, and nobody else
/// can write into them, but for those that keep one user's files from another's
/// (`/tmp`).
pub(super) fn check_directory(directory: &Path) -> io::Result<()> {
    let me = geteuid().as_raw();
    for path in [
        std::path::absolute(directory)?,
        fs::canonicalize(directory)?,
    ] {
        for above in path.ancestors() {
            let found = fs::symlink_metadata(above)?;
            // The mode of a link says nothing.
            let others_write = !found.is_symlink() && found.mode() & 0o022 != 0;
            let is_sticky = found.mode() & 0o1000 != 0;
            if ![me, 0].contains(&found.uid()) || others_write && !is_sticky {
                let problem = format!("others than this user can change {}", above.display());
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
            }
        }
    }
    Ok(())
}

/// Opens a regular file without waiting for anybody: what is at a path may be
/// a pipe or a terminal by now.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits());
    let file = options.open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is not a regular file")),
    }
}

/// The directory that a path is in.
pub(super) fn directory_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}
