use std::borrow::Cow;
use std::fmt;

use rmcp::model::RequestId;
use serde::Deserializer;
use serde::de::{IgnoredAny, MapAccess, Visitor};

/// Returns the ID of an answer that is cut off, not valid JSON, or of the wrong form.
///
/// Only members of the outermost object before the fault count: an answer has `jsonrpc`, or nothing
/// but an ID and a `result` or `error`. Anything else with an ID (a JSON log line, an echoed
/// request) is no answer and must not fail the call with this ID.
pub(super) fn answer_id(line: &[u8]) -> Option<RequestId> {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    let mut found = Members::default();
    let _ = serde_json::Deserializer::from_slice(line).deserialize_map(&mut found);
    // There may have been more digits.
    let is_cut = found.ends_with_id && line.last().is_some_and(u8::is_ascii_digit);
    let is_answer = found.tagged || (found.answers && !found.foreign);
    found.id.filter(|_| is_answer && !found.asks && !is_cut)
}

#[derive(Default)]
struct Members {
    id: Option<RequestId>,
    ends_with_id: bool,
    tagged: bool,
    answers: bool,
    asks: bool,
    foreign: bool,
}

impl<'de> Visitor<'de> for &mut Members {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            self.ends_with_id = key == "id";
            match &*key {
                "id" => {
                    self.id = serde_json::from_value(map.next_value()?).ok();
                    continue;
                }
                "jsonrpc" => self.tagged = true,
                "result" | "error" => self.answers = true,
                "method" => self.asks = true,
                _ => self.foreign = true,
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_an_answer_is_found_as_far_as_it_can_be_read() {
        for line in [
            &br#"{"jsonrpc":"2.0","id":7,"result":{"a":"#[..],
            br#"{ "id" : 7 , "result" : { "x" : "}," } , "jsonrpc" : "1.0" }"#,
            br#"{"result":{"id":8,"s":"\"}{"},"id":7}"#,
            br#"{"error":{"code":1},"id":7}"#,
            b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":\"\xff\"",
            br#"{"jsonrpc":"2.0","id":7 "#,
            br#"{"jsonrpc":"2.0","id":7}"#,
        ] {
            let text = String::from_utf8_lossy(line);
            assert_eq!(answer_id(line), Some(RequestId::Number(7)), "{text}");
        }
    }

    #[test]
    fn nothing_is_found_where_nothing_is() {
        for line in [
            "",
            "{",
            "{\"",
            "{\"id\"",
            "{\"id\":",
            "7",
            "{\"a\":\"\\",
            "}{",
            "{]",
            // There may have been more digits.
            r#"{"jsonrpc":"2.0","id":12"#,
            r#"{"jsonrpc":"2.0","id": 12"#,
        ] {
            assert_eq!(answer_id(line.as_bytes()), None, "{line}");
        }
    }
}
