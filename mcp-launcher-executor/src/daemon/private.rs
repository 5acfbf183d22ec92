//! Files and directories that nobody else can change, or put something in place of.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::unistd::geteuid;
use thiserror::Error;

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

/// Why a file is not fit for a secret.
#[derive(Debug, Error)]
pub(super) enum Unfit {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it can be read by others (mode {0:03o}); run `chmod 600` on it")]
    Exposed(u32),
    #[error("it belongs to user {0}, neither this one nor root")]
    Foreign(u32),
}

/// Opens a file that only its owner, this user or root, can read or write.
///
/// What is judged is the open file, so that it cannot be replaced in between.
pub(super) fn open_secret(path: &Path) -> Result<File, Unfit> {
    let file = open(path)?;
    let found = file.metadata()?;
    if found.mode() & 0o077 != 0 {
        return Err(Unfit::Exposed(found.mode() & 0o777));
    }
    match [geteuid().as_raw(), 0].contains(&found.uid()) {
        true => Ok(file),
        false => Err(Unfit::Foreign(found.uid())),
    }
}

/// Opens a regular file without waiting for anybody: what is at a path may be
/// a pipe or a terminal by now.
fn open(path: &Path) -> io::Result<File> {
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
