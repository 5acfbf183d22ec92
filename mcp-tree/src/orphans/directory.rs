//! The directories of ledgers: see [`crate::state`].

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use nix::NixPath;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, SFlag, fstat};

use crate::state;
pub(super) use crate::state::{Refused, candidates, make};

/// Opens those of these directories that exist and are not another user's.
pub(super) fn open_own(
    paths: impl IntoIterator<Item = PathBuf>,
) -> impl Iterator<Item = (PathBuf, io::Result<OwnedFd>)> {
    paths.into_iter().filter_map(|path| {
        let directory = match state::open_own(&path) {
            Ok(directory) => Ok(directory),
            Err(Refused::Missing) => return None,
            Err(Refused::Foreign(owner)) => {
                crate::logged!(debug, ?path, owner, "a directory belongs to another user");
                return None;
            }
            Err(Refused::Unusable(error)) => Err(error),
        };
        Some((path, directory))
    })
}

/// Opens a file of this user alone, without blocking. Links and devices are refused.
pub(super) fn open_file(
    within: impl AsFd,
    name: &(impl NixPath + ?Sized),
    flags: OFlag,
) -> io::Result<File> {
    let not_ours = || io::Error::other("it is not a private file of this user");
    let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let mode = Mode::S_IRUSR | Mode::S_IWUSR;
    let file = openat(within, name, flags, mode).map_err(|errno| match errno {
        Errno::ELOOP | Errno::ENXIO | Errno::EISDIR => not_ours(),
        errno => errno.into(),
    })?;
    match state::is_own(&fstat(&file)?, SFlag::S_IFREG) {
        true => Ok(file.into()),
        false => Err(not_ours()),
    }
}

/// Returns the names of all ledgers in a directory.
pub(super) fn names(directory: &OwnedFd) -> io::Result<Vec<OsString>> {
    let mut names = state::names(directory)?;
    names.retain(|name| {
        let name = name.as_encoded_bytes();
        name.ends_with(b".ledger") || name.ends_with(b".new")
    });
    Ok(names)
}
