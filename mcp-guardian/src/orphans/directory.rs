//! The directories of ledgers: see [`crate::state`].

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;

use crate::state;
pub(super) use crate::state::{Refused, candidates, is_own, make, open_own};

/// Returns the names of all ledgers in a directory.
pub(super) fn names(directory: &OwnedFd) -> io::Result<Vec<OsString>> {
    let mut names = state::names(directory)?;
    names.retain(|name| {
        let name = name.as_encoded_bytes();
        name.ends_with(b".ledger") || name.ends_with(b".new")
    });
    Ok(names)
}
