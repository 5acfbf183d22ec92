use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::OFlag;
use nix::unistd::geteuid;

/// Opens a file that only its owner, this user or root, can read or write. Checks the opened file,
/// which cannot be replaced in between.
pub(super) fn open_secret(path: &Path) -> io::Result<File> {
    let file = open(path)?;
    let found = file.metadata()?;
    if found.mode() & 0o077 != 0 {
        let mode = found.mode() & 0o777;
        let text = format!("it can be read by others (mode {mode:03o}); run `chmod 600` on it");
        return Err(io::Error::other(text));
    }
    let owner = found.uid();
    match [geteuid().as_raw(), 0].contains(&owner) {
        true => Ok(file),
        false => {
            let text = format!("it belongs to user {owner}, neither this one nor root");
            Err(io::Error::other(text))
        }
    }
}

/// Opens a regular file without blocking: the path may lead to a pipe or a terminal.
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
