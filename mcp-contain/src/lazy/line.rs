//! Parses lines of the host and of the server. Pure, but for cache look-ups.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value;
use serde_json::value::RawValue;

use super::cache::{Cache, key};
use super::decision::events::{Answer, FromHost, FromServer, Key, Method, Request, Response};

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

const LEVELS: &str = "debug info notice warning error critical alert emergency";

/// The members of an object, as written. Of two with one name, the last counts.
struct Members<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> Members<'a> {
    fn of(text: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(text).ok().map(Self)
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        self.0.get(name).map(|value| value.get())
    }

    fn within(&self, name: &str) -> Self {
        let inner = self.get(name).and_then(|text| Self::of(text.as_bytes()));
        inner.unwrap_or(Self(BTreeMap::new()))
    }

    fn text(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.get(name)?).ok()
    }

    fn answer(&self) -> Option<(&'static str, &'a str)> {
        let of = |name| Some((name, self.get(name)?));
        of("error").or_else(|| of("result"))
    }

    fn cancelled(&self) -> Option<Id> {
        self.within("params").get("requestId").map(Id::of)
    }
}

/// Parses a line of the host; `handshake` is the key of its handshake.
pub(super) fn of_host(line: &[u8], handshake: Option<&Key>, cache: Option<&Cache>) -> FromHost {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    match line.iter().find(|byte| !byte.is_ascii_whitespace()) {
        None => return FromHost::Notification,
        Some(b'[') => return FromHost::Batch,
        Some(_) => {}
    }
    let Some(members) = Members::of(line) else {
        return FromHost::Other;
    };
    let has_method = members.get("method").is_some();
    let method = members.text("method").unwrap_or_default();
    match (members.get("id"), &*method) {
        (Some(id), _) if has_method => request(id, &method, &members, handshake, cache),
        (Some(id), _) if members.answer().is_some() => FromHost::Response(Id::of(id)),
        (None, "notifications/initialized") => FromHost::Initialized,
        (None, "notifications/cancelled") => members
            .cancelled()
            .map_or(FromHost::Notification, FromHost::Cancelled),
        (None, _) if has_method => FromHost::Notification,
        _ => FromHost::Other,
    }
}

fn request(
    id: &str,
    method: &str,
    members: &Members<'_>,
    handshake: Option<&Key>,
    cache: Option<&Cache>,
) -> FromHost {
    let params = members.within("params");
    let is_page = params.get("cursor").is_some();
    let kind = match method {
        "initialize" => Method::Initialize,
        "server/discover" => Method::Discover,
        "tools/list" if !is_page => Method::List("tools"),
        "prompts/list" if !is_page => Method::List("prompts"),
        "resources/list" | "resources/templates/list" if !is_page => Method::List("resources"),
        "ping" => Method::Ping,
        "logging/setLevel" => Method::SetLevel {
            is_valid: params
                .text("level")
                .is_some_and(|level| LEVELS.split(' ').any(|known| known == level)),
        },
        "resources/subscribe" => Method::Lasting,
        _ if params.get("task").is_some() => Method::Lasting,
        _ => Method::Other,
    };
    let text = members.get("params");
    let key = match kind {
        Method::Initialize | Method::Discover => key::request(method, text, None),
        Method::List(_) => key::request(method, text, handshake),
        _ => None,
    };
    FromHost::Request(Request {
        id: Id::of(id),
        text: id.as_bytes().into(),
        method: kind,
        is_modern: params.within("_meta").get(VERSION).is_some(),
        cached: key.as_ref().and_then(|key| answer(cache?.get(key)?.into())),
        key,
    })
}

/// Parses a line of the server. Its answer is kept only if it is of interest.
pub(super) fn of_server(line: &[u8], is_of_interest: impl FnOnce(&Id) -> bool) -> FromServer {
    let Some(members) = Members::of(line) else {
        return FromServer::Other;
    };
    match (members.get("id"), members.get("method"), members.answer()) {
        (Some(id), Some(_), _) => FromServer::Request(Id::of(id), id.as_bytes().into()),
        (Some(id), None, Some((name, text))) => {
            let id = Id::of(id);
            let result = members.within("result");
            let is_task = result.get("task").is_some_and(|task| task.starts_with('{'));
            let is_of_interest = is_of_interest(&id);
            FromServer::Response(Response {
                is_error: name == "error",
                is_task: is_task || result.text("resultType").as_deref() == Some("task"),
                has_next: result.get("nextCursor").is_some_and(|next| next != "null"),
                answer: is_of_interest
                    .then(|| format!("{{\"{name}\":{text}}}").into_bytes())
                    .and_then(|text| answer(text.into())),
                id,
            })
        }
        (None, Some(_), _) => match members.text("method").as_deref() {
            Some("notifications/progress") => FromServer::Progress,
            Some("notifications/cancelled") => members
                .cancelled()
                .map_or(FromServer::Other, FromServer::Cancelled),
            _ => FromServer::Other,
        },
        _ => FromServer::Other,
    }
}

fn answer(text: Rc<[u8]>) -> Option<Answer> {
    let members = Members::of(&text)?;
    members.answer()?;
    let (result, error) = (members.within("result"), members.within("error"));
    let code = error.get("code").and_then(|code| code.parse().ok());
    Some(Answer {
        digest: key::digest(&text),
        version: result.get("protocolVersion").map(Box::from),
        has_logging: result.within("capabilities").get("logging").is_some(),
        error: code.map(|code| (code, error.text("message").unwrap_or_default())),
        text,
    })
}

/// The ID of a request. Equal IDs may be written differently: a server may answer `1.0` with `1`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Id(Box<str>);

impl Id {
    pub(super) fn of(text: &str) -> Self {
        let plain = match serde_json::from_str(text) {
            Ok(Value::String(text)) => format!("\"{text}"),
            Ok(Value::Number(number)) => match number.as_f64() {
                Some(float) if !number.is_i64() && !number.is_u64() && float.fract() == 0.0 => {
                    format!("{float:.0}")
                }
                _ => number.to_string(),
            },
            _ => text.to_owned(),
        };
        Self(plain.into())
    }
}
