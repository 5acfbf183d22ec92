//! The place of a server's socket, and its permissions.
//!
//! Its path is short enough for every system, and whoever could use the engine's
//! own socket can use it: a wrapper may run as another user, and a container may
//! have been given the engine's group.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use mcp_lifecycle_host::private;

use super::proxy::LONGEST_PATH;
use crate::lease::{self, Lease};

/// The path for the socket of this launch.
pub(super) fn place(lease: &Lease, launch: &str, engine: &Path) -> io::Result<PathBuf> {
    let path = lease.socket(lease.directory(), launch);
    // Only root has servers of other users, who cannot enter a directory of its
    // own.
    let is_shared = nix::unistd::geteuid().is_root() && fs::metadata(engine)?.mode() & 0o077 != 0;
    if path.as_os_str().len() <= LONGEST_PATH && !is_shared {
        return Ok(path);
    }
    in_short(lease, launch)
}

/// The path for the socket that leads to a remote engine: for this user alone.
pub(super) fn of_bridge(lease: &Lease, launch: &str) -> io::Result<PathBuf> {
    // Another name than the proxy's.
    let turned: String = launch.chars().rev().collect();
    let path = lease.socket(lease.directory(), &turned);
    match path.as_os_str().len() <= LONGEST_PATH {
        true => Ok(path),
        false => in_short(lease, &turned),
    }
}

fn in_short(lease: &Lease, launch: &str) -> io::Result<PathBuf> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for directory in lease::short_directories() {
        match enter(&directory) {
            Ok(()) => return Ok(lease.socket(&directory, launch)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Makes a directory that others enter, and do not list; the sockets in it have
/// modes of their own.
fn enter(directory: &Path) -> io::Result<()> {
    private::create(directory)?;
    fs::set_permissions(directory, Permissions::from_mode(0o711))
}

/// Gives a socket the owner, group and mode of the engine's, as far as this user
/// may.
pub(super) fn like(engine: &Path, socket: &Path) -> io::Result<()> {
    let found = fs::metadata(engine)?;
    let ours = chown(socket, Some(found.uid()), Some(found.gid()))
        .or_else(|_| chown(socket, None, Some(found.gid())));
    // Nobody else gets in by another group than the engine's.
    let mode = match ours {
        Ok(()) => found.mode() & 0o777,
        Err(_) => 0o600,
    };
    fs::set_permissions(socket, Permissions::from_mode(mode))
}
