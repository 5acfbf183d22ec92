//! The values that options have.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::ByteSize;

/// The cases in which an image is pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum PullPolicy {
    /// Pulls if the engine does not have it.
    #[default]
    Missing,
    /// Before every launch.
    Always,
    /// Never: a missing image is an error.
    Never,
}

/// The first process of the container, where signals and orphans arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Init {
    /// The engine's own init, as with `docker run --init`: it forwards SIGTERM
    /// and reaps. Without it a server that has no handler for SIGTERM cannot
    /// be asked to end.
    #[default]
    Engine,
    /// The server itself: for images that bring an init of their own.
    None,
    /// An init of this crate, which also watches the server's input: when the
    /// host has gone, however it died, the server has
    /// [`init_grace_ms`](super::ContainerOptions::init_grace_ms) to leave, is asked to
    /// end, and is killed after the same time again. Nobody else is needed for
    /// that. It is copied into the container; with a read-only root it is
    /// mounted, which needs an engine on this machine. Linux on `x86_64` and
    /// `aarch64`, and the image must be for the same. More than about 64 KiB
    /// that the server has not read hide the end of its input.
    Supervised,
}

/// Something that the container sees of what is outside of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
#[non_exhaustive]
pub enum Mount {
    /// A file or directory of the daemon's machine.
    Bind {
        /// Its path there.
        source: PathBuf,
        /// Its path in the container.
        target: PathBuf,
        /// `true` if it can be written to. It cannot, unless this says so.
        #[serde(default)]
        writable: bool,
    },
    /// A named volume.
    Volume {
        /// Its name.
        source: String,
        /// Its path in the container.
        target: PathBuf,
        /// `true` if it can be written to. It cannot, unless this says so.
        #[serde(default)]
        writable: bool,
    },
    /// A file system in memory, empty at first.
    Tmpfs {
        /// Its path in the container.
        target: PathBuf,
        /// Its greatest size; the engine's default otherwise.
        #[serde(default)]
        size: Option<ByteSize>,
    },
}

/// The GPUs that a container sees, as with `docker run --gpus`. In a configuration
/// file: `"all"`, a number, or a list of indices or UUIDs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Gpus {
    /// All that the engine has.
    All,
    /// So many of them; the engine chooses.
    Count(u32),
    /// These, by index or UUID.
    Devices(Vec<String>),
}

impl Serialize for Gpus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All => serializer.serialize_str("all"),
            Self::Count(count) => serializer.serialize_u32(*count),
            Self::Devices(ids) => ids.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Gpus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Text(String),
            Count(u32),
            Devices(Vec<String>),
        }
        let wrong = "write \"all\", a number, or a list of indices or UUIDs";
        match Written::deserialize(deserializer).map_err(|_| de::Error::custom(wrong))? {
            Written::Text(text) if text == "all" => Ok(Self::All),
            Written::Text(_) => Err(de::Error::custom(wrong)),
            Written::Count(count) => Ok(Self::Count(count)),
            Written::Devices(ids) => Ok(Self::Devices(ids)),
        }
    }
}
