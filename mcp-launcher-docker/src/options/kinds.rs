use std::path::PathBuf;

use serde::{Deserialize, Serialize};

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
        /// Its maximum size; the engine's default if unset.
        #[serde(default)]
        size: Option<ByteSize>,
    },
}

/// A number of bytes: `1048576`, `"512m"`, `"2g"`, `"1t"`. Units are powers of 1024,
/// as with `docker run --memory`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Written")]
pub struct ByteSize(u64);

impl ByteSize {
    /// Returns the number of bytes.
    pub fn bytes(self) -> u64 {
        self.0
    }

    pub(crate) fn for_engine(self) -> i64 {
        i64::try_from(self.0).unwrap_or(i64::MAX)
    }
}

impl TryFrom<&str> for ByteSize {
    type Error = String;

    fn try_from(text: &str) -> Result<Self, String> {
        mcp_lifecycle_core::size::parse(text)
            .map(Self)
            .ok_or_else(|| {
                format!("`{text}` is not a number of bytes; write 1048576, \"512m\" or \"2g\"")
            })
    }
}

impl From<u64> for ByteSize {
    fn from(bytes: u64) -> Self {
        Self(bytes)
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Number(u64),
    Text(String),
}

impl TryFrom<Written> for ByteSize {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        match written {
            Written::Number(bytes) => Ok(Self(bytes)),
            Written::Text(text) => Self::try_from(&*text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_powers_of_1024() {
        let of = |text: &str| ByteSize::try_from(text).map(ByteSize::bytes);
        assert_eq!(of("10"), Ok(10));
        assert_eq!(of("512m"), Ok(512 << 20));
        assert_eq!(of("2GiB"), Ok(2 << 30));
        assert_eq!(of("1t"), Ok(1 << 40));
        assert!(of("m").is_err());
        assert!(of("1x").is_err());
        assert!(of("99999999999g").is_err());
    }
}
