//! Runs a server in its own mount namespace, in which the proxy replaces the engine's socket. Pure.
//!
//! Uses util-linux `unshare` and `mount`, which need root or else a user namespace, in which the
//! server appears to be root.

use std::ffi::{OsStr, OsString};
use std::path::Path;

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
