//! Where a server's socket goes, and who may use it.
//!
//! Its path is short enough for every system, and whoever could use the engine's
//! own socket can use it: a wrapper may run as another user, and a container may
//! have been given the engine's group.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use super::proxy::LONGEST_PATH;
use crate::lease::{self, Lease};
use crate::private::create_private;

/// The path for the socket of this launch.
pub(super) fn place(
    lease: &Lease,
    lease_directory: &Path,
    launch: &str,
    engine: &Path,
) -> io::Result<PathBuf> {
    let path = lease.socket(lease_directory, launch);
    // Only root has servers of other users, who cannot enter a directory of its
    // own.
    let is_shared = nix::unistd::geteuid().is_root() && fs::metadata(engine)?.mode() & 0o077 != 0;
    if path.as_os_str().len() <= LONGEST_PATH && !is_shared {
        return Ok(path);
    }
    let directory = lease::short_directory();
    create_private(&directory)?;
    // Entered, and not listed; the sockets have modes of their own.
    fs::set_permissions(&directory, Permissions::from_mode(0o711))?;
    Ok(lease.socket(&directory, launch))
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
