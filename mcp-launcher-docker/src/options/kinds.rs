use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Process 1 of the container, which receives signals and orphans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Init {
    /// The engine's own init, as with `docker run --init`: it forwards SIGTERM and reaps. Without
    /// it a server without a handler for SIGTERM ignores it.
    #[default]
    Engine,
    /// The server itself, for images with their own init.
    None,
    /// The init of this crate, which also watches the server's input. When the host is gone, the
    /// server has [`init_grace`](super::ContainerOptions::init_grace) to exit, then gets
    /// SIGTERM, and SIGKILL after the same time again; nothing outside the container is needed. It
    /// is copied into the container; with a read-only root it is mounted, which needs an engine on
    /// this machine. Linux on `x86_64` and `aarch64`, for images of the same architecture. More
    /// than about 64 KiB of unread input hide its end.
    Supervised,
}

/// A mount at the path `target` of the container, read-only unless it is `writable`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the field has its name")]
pub enum Mount {
    /// A file or directory of the daemon's machine.
    Bind {
        source: PathBuf,
        target: PathBuf,
        #[serde(default)]
        writable: bool,
    },
    /// A named volume.
    Volume {
        source: String,
        target: PathBuf,
        #[serde(default)]
        writable: bool,
    },
    /// An empty, writable file system in memory.
    Tmpfs {
        target: PathBuf,
        /// Its maximum size, as that of the memory; the engine's default if unset.
        #[serde(default)]
        size: Option<Value>,
    },
}
