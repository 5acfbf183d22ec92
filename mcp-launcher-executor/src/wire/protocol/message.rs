use std::borrow::Cow;
use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use thiserror::Error;

use super::RpcError;

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(untagged)]
pub enum RequestId {
    Number(i64),
    Text(String),
}

/// By hand: what serde makes of `untagged` keeps a whole value in memory, at many times its size on
/// the wire, before it refuses it.
impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        let id = match raw.parse() {
            Ok(number) => Ok(Self::Number(number)),
            Err(_) => serde_json::from_str(raw).map(Self::Text),
        };
        id.map_err(|_| D::Error::custom("an id that is neither an integer nor a string"))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(id) => write!(f, "{id}"),
            Self::Text(id) => f.write_str(id),
        }
    }
}

/// A message with unparsed parameters, which borrow from the frame.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Message<'a> {
    Request {
        id: RequestId,
        method: Cow<'a, str>,
        params: Params<'a>,
    },
    Notification {
        method: Cow<'a, str>,
        params: Params<'a>,
    },
    Response {
        id: RequestId,
        result: Params<'a>,
    },
    Error {
        /// Which request; `None` when the peer could not tell.
        id: Option<RequestId>,
        error: RpcError,
    },
}

#[derive(Debug, Clone, Copy)]
pub struct Params<'a>(Option<&'a RawValue>);

impl<'a> Params<'a> {
    /// Parses them. Absent ones are an empty object.
    pub fn parse<T: Deserialize<'a>>(self) -> Result<T, MalformedMessage> {
        let text = match self.0 {
            Some(raw) if raw.get() != "null" => raw.get(),
            _ => "{}",
        };
        // A struct would be filled in the order of its fields.
        if text.starts_with('[') {
            return Err(MalformedMessage("a list instead of an object".to_owned()));
        }
        serde_json::from_str(text).map_err(|error| MalformedMessage::from_json(&error))
    }

    pub fn text(self) -> &'a str {
        self.0.map_or("null", RawValue::get)
    }
}

/// A frame that is not a message of the protocol.
///
/// The text says where and what kind, and quotes nothing of the frame.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("malformed message: {0}")]
pub struct MalformedMessage(pub String);

impl MalformedMessage {
    /// Without what the parser quotes of the frame: it may be a secret.
    pub fn from_json(error: &serde_json::Error) -> Self {
        const LONGEST: usize = 200;
        let text = error.to_string();
        let said = match text.rsplit_once(", expected ") {
            // `invalid type: string "..."`, `unknown field `...``
            Some((what, expected)) => {
                let what = what.split(['"', '`']).next().unwrap_or_default();
                format!("{}, expected {expected}", what.trim_end())
            }
            None => text,
        };
        Self(said.chars().take(LONGEST).collect())
    }
}

#[derive(Deserialize)]
struct Envelope<'a> {
    /// `Some(None)` is `null`.
    #[serde(default, deserialize_with = "present")]
    id: Option<Option<RequestId>>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<RpcError>,
}

/// A field that is there: serde takes `null` for none.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

impl<'a> Message<'a> {
    /// Parses one frame. Unknown fields are ignored, as every peer does.
    pub fn parse(frame: &'a [u8]) -> Result<Self, MalformedMessage> {
        let envelope: Envelope<'a> =
            serde_json::from_slice(frame).map_err(|error| MalformedMessage::from_json(&error))?;
        match envelope {
            Envelope {
                method: Some(method),
                id,
                params,
                ..
            } => match id {
                Some(Some(id)) => Ok(Self::Request {
                    id,
                    method,
                    params: Params(params),
                }),
                Some(None) => Err(MalformedMessage("a request without an id".to_owned())),
                None => Ok(Self::Notification {
                    method,
                    params: Params(params),
                }),
            },
            Envelope {
                error: Some(error),
                id,
                ..
            } => Ok(Self::Error {
                id: id.flatten(),
                error,
            }),
            Envelope {
                id: Some(Some(id)),
                result: result @ Some(_),
                ..
            } => Ok(Self::Response {
                id,
                result: Params(result),
            }),
            Envelope { .. } => Err(MalformedMessage(
                "neither a method nor an answer".to_owned(),
            )),
        }
    }
}
