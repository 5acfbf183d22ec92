//! The report of a server, which its guardian writes: opened so that no write blocks.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;

use nix::libc;

use crate::failure::Failure;
use crate::sys;

/// Opens the descriptor of this number, or else the file. No program that is started from now on
/// inherits it.
pub(super) fn open(to: &OsStr) -> Result<Arc<OwnedFd>, Failure> {
    let opened = match to.to_str().and_then(|to| to.parse().ok()) {
        Some(0 | 1) => Err(io::Error::other("the server has it")),
        Some(number) => descriptor(number),
        None => append(to.as_ref(), true),
    };
    mcp_guardian::sys::close_on_exec_from(3);
    opened.map(Arc::new).map_err(|error| {
        let why = match error.raw_os_error() {
            Some(libc::ENXIO) => "nothing reads it".to_owned(),
            _ => error.to_string(),
        };
        Failure::wrapper(format_args!("cannot report to {}: {why}", to.display()))
    })
}

fn descriptor(number: i32) -> io::Result<OwnedFd> {
    let file = File::from(sys::duplicate(number)?);
    if file.metadata()?.file_type().is_socket() {
        return Ok(file.into());
    }
    // Opened again, since `O_NONBLOCK` would be the host's, too.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    append(path.as_ref(), false)
}

fn append(path: &Path, create: bool) -> io::Result<OwnedFd> {
    let mut options = OpenOptions::new();
    options.append(true).create(create).mode(0o600);
    options.custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK);
    options.open(path).map(OwnedFd::from)
}
