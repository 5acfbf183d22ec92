//! `fs/getMetadata`: the kind of a file.
//!
//! The only request about files that codex's client makes before it starts a server (for `.git` and
//! `AGENTS.md`). It reveals nothing that running `stat` would not.

use std::io::ErrorKind;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::protocol::{Params, RpcError, code, path_from_wire};

#[derive(Deserialize)]
struct Asked<'a> {
    path: String,
    #[serde(borrow, default)]
    sandbox: Option<&'a RawValue>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata {
    is_directory: bool,
    is_file: bool,
    is_symlink: bool,
    size: u64,
    created_at_ms: u64,
    modified_at_ms: u64,
}

pub(super) fn path(params: Params<'_>) -> Result<String, RpcError> {
    let invalid = |text: &str| RpcError::new(code::INVALID_PARAMS, text);
    let asked: Asked<'_> = params.parse()?;
    if asked.sandbox.is_some_and(|raw| raw.get() != "null") {
        return Err(invalid(
            "this executor has no sandbox, so it cannot enforce `sandbox`",
        ));
    }
    path_from_wire(&asked.path)
        .ok_or_else(|| invalid("path is neither a file: URI nor an absolute path"))
}

/// Reads the metadata; reports a link and follows it. Blocks.
pub(super) fn look(path: &str) -> Result<Metadata, RpcError> {
    let failed = |error: std::io::Error| {
        let code = match error.kind() {
            ErrorKind::NotFound => code::NOT_FOUND,
            _ => code::INVALID_REQUEST,
        };
        RpcError::new(code, error.to_string())
    };
    let metadata = std::fs::metadata(path).map_err(failed)?;
    let link = std::fs::symlink_metadata(path).map_err(failed)?;
    Ok(Metadata {
        is_directory: metadata.is_dir(),
        is_file: metadata.is_file(),
        is_symlink: link.is_symlink(),
        size: metadata.len(),
        created_at_ms: since_epoch(metadata.created()),
        modified_at_ms: since_epoch(metadata.modified()),
    })
}

/// Returns milliseconds since the epoch; 0 if unknown, as in codex.
fn since_epoch(time: std::io::Result<SystemTime>) -> u64 {
    let since = time.ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}
