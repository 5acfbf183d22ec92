//! Files that hold secrets, opened so that nobody else can have read or replaced them.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::unistd::geteuid;
use thiserror::Error;

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
