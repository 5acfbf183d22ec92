use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes that are transferred as base64. `Debug` shows the length only, since the content is
/// private.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Chunk(pub Bytes);

impl fmt::Debug for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chunk({} bytes)", self.0.len())
    }
}

impl Serialize for Chunk {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Chunk {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Base64)
    }
}

struct Base64;

impl Visitor<'_> for Base64 {
    type Value = Chunk;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("base64 with padding")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Chunk, E> {
        // The decoder's own message quotes only the offending byte and position.
        let bytes = STANDARD.decode(text).map_err(E::custom)?;
        Ok(Chunk(bytes.into()))
    }
}
