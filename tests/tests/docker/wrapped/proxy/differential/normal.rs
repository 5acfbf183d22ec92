//! Answers without what differs between two runs of the same: ids, times,
//! names that the engine made up, and our labels.

use serde_json::{Deserializer, Value};

use super::wire::Answer;

/// Headers of one connection, or of one moment.
const OF_A_CONNECTION: &[&str] = &[
    "connection",
    "keep-alive",
    "transfer-encoding",
    "content-length",
    "date",
];

/// Values of one moment.
const OF_A_MOMENT: &[&str] = &[
    "Created",
    "CreatedAt",
    "created",
    "NFd",
    "NGoroutines",
    "SystemTime",
    "Pid",
    "read",
    "preread",
    "time",
    "timeNano",
    "LastTagTime",
    "system_cpu_usage",
    "mtime",
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Normal {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
}

pub(super) struct Normaliser {
    /// The proxy's socket, and the engine's.
    pub(super) sockets: (String, String),
}

impl Normaliser {
    pub(super) fn answer(&self, answer: &Answer) -> Normal {
        let headers = answer.headers.iter();
        let mut headers: Vec<_> = headers
            .filter(|(name, _)| !OF_A_CONNECTION.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), self.header(name, value)))
            .collect();
        headers.sort();
        let is_archive = answer
            .header("content-type")
            .is_some_and(|kind| kind.contains("tar") || kind.contains("octet"));
        let body = match () {
            () if is_archive => format!("archive {}", !answer.body.is_empty()),
            () => self.body(&answer.body),
        };
        let cut = if answer.cut { " CUT" } else { "" };
        Normal {
            status: answer.status,
            headers,
            body: format!("{body}{cut}"),
        }
    }

    fn header(&self, name: &str, value: &str) -> String {
        if name == "x-docker-container-path-stat" {
            // Base64 of JSON with a time in it.
            return format!("{} characters", value.len());
        }
        self.text(value)
    }

    pub(super) fn body(&self, body: &[u8]) -> String {
        let values: Result<Vec<Value>, _> = Deserializer::from_slice(body).into_iter().collect();
        match values {
            Ok(values) => {
                let values = values.into_iter().map(|value| self.value(value));
                let mut all: Vec<_> = values.map(|value| value.to_string()).collect();
                all.sort();
                all.join("\n")
            }
            Err(_) => self.text(&String::from_utf8_lossy(body)),
        }
    }

    fn value(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(&text)),
            Value::Array(all) => {
                let all = all.into_iter().filter(|value| {
                    let text = value.as_str().unwrap_or_default();
                    !text.starts_with("MCP_LIFECYCLE_ID")
                });
                let mut all: Vec<_> = all.map(|value| self.value(value)).collect();
                all.sort_by_cached_key(Value::to_string);
                Value::Array(all)
            }
            Value::Object(all) => {
                let all = all
                    .into_iter()
                    .filter(|(key, _)| {
                        !key.starts_with("dev.mcp-lifecycle.")
                            && !OF_A_MOMENT.contains(&key.as_str())
                    })
                    .map(|(key, value)| match value.as_str() {
                        // "Exited (127) 3 seconds ago"
                        Some(status) if key == "Status" => {
                            (key, status.split(' ').next().unwrap_or_default().into())
                        }
                        _ => (self.text(&key), self.value(value)),
                    });
                // Of no labels an engine makes now null, now {}.
                Value::Object(
                    all.filter(|(key, value)| {
                        key != "Labels" || value.as_object().is_some_and(|all| !all.is_empty())
                    })
                    .collect(),
                )
            }
            other => other,
        }
    }

    fn text(&self, text: &str) -> String {
        let text = text.replace(&self.sockets.0, &self.sockets.1);
        let name = text.trim_start_matches('/');
        let is_made_up = name.split_once('_').is_some_and(|(left, right)| {
            let plain = |part: &str| part.chars().all(|c| c.is_ascii_lowercase());
            plain(left) && plain(right.trim_end_matches(|c: char| c.is_ascii_digit()))
        });
        if is_made_up {
            return "<name>".to_owned();
        }
        without_ids(&text)
    }
}

/// Runs of so many hexadecimal digits are ids, and what looks like an instant is one.
fn without_ids(text: &str) -> String {
    let mut new = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let hex = rest.find(|c: char| !c.is_ascii_hexdigit());
        let hex = hex.unwrap_or(rest.len());
        let instant = rest.find(|c: char| !c.is_ascii_digit() && !"-:TZ.".contains(c));
        let instant = instant.unwrap_or(rest.len());
        let (word, length) = match () {
            () if hex >= 12 => ("<id>", hex),
            () if instant >= 19 && rest[..instant].contains('T') => ("<time>", instant),
            () => ("", hex.max(first.len_utf8())),
        };
        new.push_str(if word.is_empty() {
            &rest[..length]
        } else {
            word
        });
        rest = &rest[length..];
    }
    new
}
