use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use thiserror::Error;

use super::MalformedMessage;

pub mod code {
    /// The request is not valid in this state; also malformed JSON, with id -1.
    pub const INVALID_REQUEST: i64 = -32600;
    pub const METHOD_NOT_FOUND: i64 = -32601;
    pub const INVALID_PARAMS: i64 = -32602;
    /// The server failed: a program that cannot be started, a broken pipe.
    pub const INTERNAL: i64 = -32603;
    pub const NOT_FOUND: i64 = -32004;
    /// The session is still attached to another connection; try again.
    pub const SESSION_ATTACHED: i64 = -32010;
    /// The peer is shutting its side down.
    pub const TRANSPORT_CLOSED: i64 = -32000;
    /// Extension: a limit of the daemon was reached.
    pub const LIMIT: i64 = -32020;
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Error)]
#[error("{message} (code {code})")]
pub struct RpcError {
    pub code: i64,
    #[serde(default)]
    pub message: String,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "small"
    )]
    pub data: Option<serde_json::Value>,
}

/// Data of a peer, unless there is too much of it: a value in memory is many
/// times as large as its text.
fn small<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<serde_json::Value>, D::Error> {
    const LARGEST: usize = 4096;
    let raw = <&RawValue>::deserialize(deserializer)?;
    if raw.get().len() > LARGEST {
        return Ok(None);
    }
    serde_json::from_str(raw.get()).map_err(serde::de::Error::custom)
}

impl RpcError {
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }

    pub fn kind(&self) -> Option<&str> {
        self.data.as_ref()?.get("kind")?.as_str()
    }

    pub fn searched(&self) -> Vec<PathBuf> {
        let data = self.data.as_ref();
        let searched = data.and_then(|data| data.get("searched")?.as_array());
        let texts = searched
            .into_iter()
            .flatten()
            .filter_map(|dir| dir.as_str());
        texts.map(PathBuf::from).collect()
    }

    #[must_use]
    pub fn with_data(mut self, data: serde_json::Value) -> Self {
        self.data = Some(data);
        self
    }
}

impl From<MalformedMessage> for RpcError {
    fn from(error: MalformedMessage) -> Self {
        Self::new(code::INVALID_PARAMS, error.to_string())
    }
}
