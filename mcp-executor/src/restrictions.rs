//! Rejects restrictions of a start that are not enforced here. Pure.
//!
//! An unenforced restriction is worse than a refusal, since its client relies on it. So every field
//! of `process/start` that is not known to be harmless is refused, unless it requests nothing.

use std::fmt;

use serde::Deserializer;
use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::protocol::{Params, RpcError, code};

/// Rejects parameters of `process/start` that request more than is done.
pub(super) fn check(params: Params<'_>) -> Result<(), RpcError> {
    let mut json = serde_json::Deserializer::from_str(params.text());
    match json.deserialize_map(Fields) {
        Ok(None) => Ok(()),
        Ok(Some(text)) => Err(RpcError::new(code::INVALID_PARAMS, text)),
        // Not an object: the parser of the parameters has a better error.
        Err(_) => Ok(()),
    }
}

struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut refused = None;
        while let Some(name) = map.next_key::<String>()? {
            if is_served(&name) || refused.is_some() {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let value = map.next_value::<&RawValue>().map_err(Error::custom)?;
            refused = refusal(&name, value.get());
        }
        Ok(refused)
    }
}

fn is_served(name: &str) -> bool {
    matches!(
        name,
        "processId" | "argv" | "cwd" | "env" | "envPolicy" | "tty" | "pipeStdin" | "arg0"
    )
}

fn refusal(name: &str, value: &str) -> Option<String> {
    let harmless = match name {
        // Describes the process and restricts nothing.
        "metadata" => value == "null" || value.starts_with('{'),
        "sandbox" | "managedNetwork" | "networkProxy" | "shellSnapshot" => value == "null",
        _ => matches!(value, "null" | "false"),
    };
    if harmless {
        return None;
    }
    let name: String = name.chars().take(64).collect();
    Some(match name.as_str() {
        "metadata" => "`metadata` is not an object".to_owned(),
        "sandbox" | "managedNetwork" | "networkProxy" | "enforceManagedNetwork" => {
            format!("this executor has no sandbox, so it cannot enforce `{name}`")
        }
        _ => format!("this executor does not know `{name}` and cannot carry it out"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Message;

    fn checked(params: &str) -> Result<(), RpcError> {
        let frame = format!(r#"{{"id":1,"method":"process/start","params":{params}}}"#);
        let Ok(Message::Request { params, .. }) = Message::parse(frame.as_bytes()) else {
            panic!("a request");
        };
        check(params)
    }

    #[test]
    fn a_field_in_any_spelling_of_json_is_the_same_field() {
        for asks in [
            r#"{"sandbox":{}}"#,
            r#"{"\u0073andbox":{}}"#,
            r#"{"sandbox":null,"sandbox":{}}"#,
            r#"{"sandbox":{},"sandbox":null}"#,
            r#"{ "enforceManagedNetwork" : true }"#,
        ] {
            assert!(checked(asks).is_err(), "{asks}");
        }
        for asks_nothing in ["{}", "null", r#"{"sandbox":null,"newer":false}"#] {
            assert!(checked(asks_nothing).is_ok(), "{asks_nothing}");
        }
        let long = checked(&format!(r#"{{"{}":1}}"#, "x".repeat(1 << 20))).unwrap_err();
        assert!(long.message.len() < 256);
    }
}
