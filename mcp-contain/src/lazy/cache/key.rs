//! Cache keys: hashes of everything that an answer depends on. Pure.

pub(in crate::lazy) use mcp_tree::direct::specification;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::lazy::decision::events::Key;

const META: &str = "io.modelcontextprotocol/";

/// Hashes a request after this handshake. `None` if its parameters cannot be parsed.
pub(in crate::lazy) fn request(
    method: &str,
    params: Option<&str>,
    handshake: Option<&Key>,
) -> Option<Key> {
    let mut params: Value = serde_json::from_str(params.unwrap_or("{}")).ok()?;
    let object = params.as_object_mut()?;
    // Tokens and traces belong to one request.
    if let Some(Value::Object(meta)) = object.get_mut("_meta") {
        meta.retain(|key, _| key.starts_with(META));
        if meta.is_empty() {
            object.remove("_meta");
        }
    }
    params.sort_all_objects();
    let mut hash = Sha256::new();
    hash.update(handshake.map_or(&[][..], |key| &key[..]));
    hash.update([u8::from(handshake.is_some())]);
    hash.update((method.len() as u64).to_le_bytes());
    hash.update(method);
    hash.update(params.to_string());
    Some(hash.finalize().into())
}

pub(in crate::lazy) fn digest(text: &[u8]) -> Key {
    Sha256::digest(text).into()
}
