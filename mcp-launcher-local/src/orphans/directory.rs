//! The directories of ledgers: see [`mcp_lifecycle_host::state`].

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;

use mcp_lifecycle_host::state;
pub(super) use mcp_lifecycle_host::state::{Refused, candidates, is_own, make, open_own};

/// The names of all ledgers in a directory.
pub(super) fn names(directory: &OwnedFd) -> io::Result<Vec<OsString>> {
    let mut names = state::names(directory)?;
    names.retain(|name| {
        let name = name.as_encoded_bytes();
        name.ends_with(b".ledger") || name.ends_with(b".new")
    });
    Ok(names)
}
