//! The path of a server's socket, and its permissions: those of the engine's socket, since a wrapper
//! may run as another user, and a container may have the engine's group.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use mcp_guardian::private;

use super::proxy::LONGEST_PATH;
use crate::ledger::{self, Ledger};

pub(super) fn place(ledger: &Ledger, launch: &str, engine: Option<&Path>) -> io::Result<PathBuf> {
    let path = ledger.socket(&ledger.directory, launch);
    // Only root has servers of other users, which cannot enter a private directory.
    let is_shared = match engine {
        Some(engine) if nix::unistd::geteuid().is_root() => {
            fs::metadata(engine)?.mode() & 0o077 != 0
        }
        _ => false,
    };
    if path.as_os_str().len() <= LONGEST_PATH && !is_shared {
        return Ok(path);
    }
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for directory in ledger::short_directories() {
        match enter(&directory) {
            Ok(()) => return Ok(ledger.socket(&directory, launch)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Creates a directory that others can enter but not list; its sockets have their own modes.
fn enter(directory: &Path) -> io::Result<()> {
    private::create(directory)?;
    fs::set_permissions(directory, Permissions::from_mode(0o711))
}

/// Gives a socket the owner, group and mode of the engine's, as far as possible. One to a remote
/// engine is for this user alone.
pub(super) fn like(engine: Option<&Path>, socket: &Path) -> io::Result<()> {
    let Some(engine) = engine else {
        return fs::set_permissions(socket, Permissions::from_mode(0o600));
    };
    let found = fs::metadata(engine)?;
    let ours = chown(socket, Some(found.uid()), Some(found.gid()))
        .or_else(|_| chown(socket, None, Some(found.gid())));
    // Without the engine's group, only this user may access it.
    let mode = match ours {
        Ok(()) => found.mode() & 0o777,
        Err(_) => 0o600,
    };
    fs::set_permissions(socket, Permissions::from_mode(mode))
}

/// Arguments of `sh`: the proxy's socket, the engine's, and the command.
const SCRIPT: &str = r#"mount --bind "$1" "$2" || exit 125; shift 2; exec "$@""#;

pub(super) fn around(
    program: &OsStr,
    args: &[OsString],
    proxy: &Path,
    engine: &Path,
    is_root: bool,
) -> (OsString, Vec<OsString>) {
    let mut all: Vec<OsString> = Vec::new();
    if !is_root {
        all.push("--map-root-user".into());
    }
    let fixed = ["--mount", "--propagation", "private", "--", "/bin/sh", "-c"];
    all.extend(fixed.map(OsString::from));
    all.extend([SCRIPT.into(), "sh".into(), proxy.into(), engine.into()]);
    all.push(program.to_owned());
    all.extend_from_slice(args);
    ("unshare".into(), all)
}
