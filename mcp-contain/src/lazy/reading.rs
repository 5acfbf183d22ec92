//! Meaning of a line to a relay. Pure, but for the cache that it looks into.

use super::cache::{Cache, Entry, key};
use super::decision::words::{FromHost, FromServer, Key, Known, List, Method, Request, Response};
use super::message::{Id, Message, Params, member, unquoted};

/// The member of `_meta` that says its protocol version.
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// A line of the host, and what the cache answers.
pub(super) fn of_host(
    message: &Message<'_>,
    handshake: Option<&Key>,
    cache: Option<&Cache>,
) -> (FromHost, Option<Entry>) {
    let what = match *message {
        Message::Request { id, method, params } => {
            return request(id, &unquoted(method), params, handshake, cache);
        }
        Message::Notification { method, params } => match &*unquoted(method) {
            b"notifications/initialized" => FromHost::Initialized,
            b"notifications/cancelled" => match cancelled(params) {
                Some(id) => FromHost::Cancelled(id),
                None => FromHost::Notification,
            },
            _ => FromHost::Notification,
        },
        Message::Response { id, .. } => FromHost::Response(Id::of(id)),
        Message::Batch => FromHost::Batch,
        Message::Blank => FromHost::Blank,
        Message::Other => FromHost::Other,
    };
    (what, None)
}

fn request(
    id: &[u8],
    method: &[u8],
    text: Option<&[u8]>,
    handshake: Option<&Key>,
    cache: Option<&Cache>,
) -> (FromHost, Option<Entry>) {
    let params = text.map(Params::of).unwrap_or_default();
    let uri = || params.uri.unwrap_or_default().into();
    let kind = match method {
        b"initialize" => Method::Initialize,
        b"server/discover" => Method::Discover,
        b"tools/list" | b"prompts/list" | b"resources/list" | b"resources/templates/list"
            if params.cursor.is_some() =>
        {
            Method::Other
        }
        b"tools/list" => Method::List(List::Tools),
        b"prompts/list" => Method::List(List::Prompts),
        b"resources/list" | b"resources/templates/list" => Method::List(List::Resources),
        b"ping" => Method::Ping,
        b"logging/setLevel" => Method::SetLevel,
        b"resources/subscribe" => Method::Subscribe(uri()),
        b"resources/unsubscribe" => Method::Unsubscribe(uri()),
        _ if params.task.is_some() => Method::Task,
        _ => Method::Other,
    };
    let key = match kind {
        Method::Initialize | Method::Discover => key::request(method, text, None),
        Method::List(_) => key::request(method, text, handshake),
        _ => None,
    };
    let entry = key.as_ref().and_then(|key| cache?.get(key));
    let request = Request {
        id: Id::of(id),
        text: id.into(),
        method: kind,
        is_modern: params
            .meta
            .is_some_and(|meta| member(meta, VERSION).is_some()),
        key,
        cached: entry.as_ref().map(|entry| known(&entry.answer)),
    };
    (FromHost::Request(request), entry)
}

/// A line of the server; its answer is looked at if it is of interest.
pub(super) fn of_server(
    message: &Message<'_>,
    is_of_interest: impl FnOnce(&Id) -> bool,
) -> FromServer {
    match *message {
        Message::Request { id, .. } => FromServer::Request {
            id: Id::of(id),
            text: id.into(),
        },
        Message::Notification { method, params } => match &*unquoted(method) {
            b"notifications/progress" => FromServer::Progress,
            b"notifications/cancelled" => {
                cancelled(params).map_or(FromServer::Other, FromServer::Cancelled)
            }
            _ => FromServer::Other,
        },
        Message::Response { id, answer } => {
            let id = Id::of(id);
            FromServer::Response(Response {
                known: is_of_interest(&id).then(|| known(answer.text)),
                is_error: answer.is_error,
                is_task: answer.is_task,
                has_next: answer.has_next,
                id,
            })
        }
        Message::Batch | Message::Blank | Message::Other => FromServer::Other,
    }
}

fn known(answer: &[u8]) -> Known {
    let version = member(answer, "protocolVersion").map(Box::from);
    let text = |name| serde_json::from_slice::<serde_json::Value>(member(answer, name)?).ok();
    let error = text("code").and_then(|code| {
        let message = text("message");
        let message = message.as_ref().and_then(serde_json::Value::as_str);
        Some((code.as_i64()?, message.unwrap_or_default().to_owned()))
    });
    Known {
        digest: key::digest(answer),
        version,
        error,
    }
}

fn cancelled(params: Option<&[u8]>) -> Option<Id> {
    Some(Id::of(member(params?, "requestId")?))
}

/// An answer from the cache, as a line.
pub(super) fn answer(id: &[u8], entry: &Entry) -> Vec<u8> {
    let kind = if entry.is_error {
        ",\"error\":"
    } else {
        ",\"result\":"
    };
    [
        b"{\"jsonrpc\":\"2.0\",\"id\":",
        id,
        kind.as_bytes(),
        &entry.answer,
        b"}\n",
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn method(line: &str) -> (Method, bool, Option<Key>) {
        let (what, _) = of_host(&Message::of(line.as_bytes()), None, None);
        let FromHost::Request(request) = what else {
            panic!("{line}: {what:?}")
        };
        (request.method, request.is_modern, request.key)
    }

    #[test]
    fn requests_are_known_by_what_they_ask_for() {
        let (list, modern, key) = method(r#"{"id":1,"method":"tools\/list"}"#);
        assert_eq!((list, modern), (Method::List(List::Tools), false));
        assert!(key.is_some());
        for (line, expected) in [
            (
                r#"{"id":1,"method":"tools/list","params":{"cursor":"x"}}"#,
                Method::Other,
            ),
            (
                r#"{"id":1,"method":"tools/call","params":{"name":"x","task":{}}}"#,
                Method::Task,
            ),
            (r#"{"id":1,"method":"subscriptions/listen"}"#, Method::Other),
            (
                r#"{"id":1,"method":"resources/subscribe","params":{"uri":"a:b"}}"#,
                Method::Subscribe(Box::from(&b"\"a:b\""[..])),
            ),
        ] {
            assert_eq!(method(line), (expected, false, None), "{line}");
        }
        let line = r#"{"id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
        assert_eq!(method(line), (Method::Other, true, None));
    }

    #[test]
    fn what_is_cancelled_is_known_by_the_request() {
        let line = br#"{"method":"notifications/cancelled","params":{"requestId":7}}"#;
        let (what, _) = of_host(&Message::of(line), None, None);
        assert!(matches!(what, FromHost::Cancelled(id) if id == Id::of(b"7")));
        let what = of_server(&Message::of(line), |_| false);
        assert!(matches!(what, FromServer::Cancelled(id) if id == Id::of(b"7")));
        let line = br#"{"method":"notifications/cancelled"}"#;
        let (what, _) = of_host(&Message::of(line), None, None);
        assert!(matches!(what, FromHost::Notification));
    }

    #[test]
    fn an_answer_is_looked_at_only_if_it_is_of_interest() {
        let line = br#"{"id":7,"result":{"protocolVersion":"2025-11-25"}}"#;
        let known = |interest: bool| match of_server(&Message::of(line), |_| interest) {
            FromServer::Response(Response { known, .. }) => known,
            other => panic!("{other:?}"),
        };
        assert_eq!(known(false), None);
        let version = known(true).and_then(|known| known.version);
        assert_eq!(version.as_deref(), Some(&b"\"2025-11-25\""[..]));
    }

    #[test]
    fn an_answer_of_the_cache_is_what_the_server_said_for_this_request() {
        let entry = |is_error| Entry {
            is_error,
            answer: b"{ \"a\":1}".into(),
        };
        assert_eq!(
            answer(b"\"x\"", &entry(false)),
            b"{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":{ \"a\":1}}\n"
        );
        assert_eq!(
            answer(b"7", &entry(true)),
            b"{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{ \"a\":1}}\n"
        );
    }
}
