//! A mount namespace of the server's own, in which the engine's socket is the
//! proxy's: for servers that scrub their environment or open the socket
//! themselves. Pure: it is a command line around the server's.
//!
//! By util-linux `unshare` and `mount`, which need root, or else a user
//! namespace, in which the server believes to be root.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// `sh` arguments: the proxy's socket, the engine's, and the command.
const SCRIPT: &str = r#"mount --bind "$1" "$2" || exit 125; shift 2; exec "$@""#;

/// The command that runs `program` where `engine` is `proxy`.
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
