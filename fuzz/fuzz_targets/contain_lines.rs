//! Any bytes as a line of the host, and of the server, between which `mcp-contain` relays. What they
//! are taken for is what a parser of the whole message says.

#![no_main]
#![allow(dead_code, unused_imports)]

use libfuzzer_sys::fuzz_target;
use mcp_lifecycle_fuzz::bounded;

#[path = "../../mcp-contain/src/lazy"]
mod lazy {
    mod cache;
    #[path = "decision"]
    mod decision {
        pub(super) mod events;
    }
    mod line;

    use decision::events::{FromHost, FromServer};
    use line::Id;
    use serde_json::Value;

    pub(super) fn check(bytes: &[u8]) {
        let host = line::of_host(bytes, None, None);
        let server = line::of_server(bytes, |_| true);
        let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        // What it leaves unread may be wrong.
        if let Ok(message) = serde_json::from_slice::<Value>(text) {
            of_host(&host, &message);
        }
        if let Ok(message) = serde_json::from_slice::<Value>(bytes) {
            of_server(&server, &message);
        }
        if let FromServer::Response(response) = &server
            && let Some(answer) = &response.answer
        {
            assert!(answer.text.len() <= bytes.len() + 16);
            serde_json::from_slice::<&serde_json::value::RawValue>(&answer.text)
                .expect("it is JSON");
        }
        if let FromHost::Request(request) = &host {
            assert_eq!(written(&request.text), request.id);
        }
        if let FromServer::Request(id, text) = &server {
            assert_eq!(&written(text), id);
        }
    }

    fn written(id: &[u8]) -> Id {
        Id::of(str::from_utf8(id).expect("it is text"))
    }

    fn of_host(found: &FromHost, message: &Value) {
        let has = |name: &str| message.get(name).is_some();
        match found {
            FromHost::Batch => assert!(message.is_array()),
            FromHost::Request(_) => assert!(has("id") && has("method")),
            FromHost::Response(id) => {
                assert!(!has("method") && (has("result") || has("error")));
                is_of(id, &message["id"]);
            }
            FromHost::Initialized => {
                assert_eq!(message["method"], "notifications/initialized");
                assert!(!has("id"));
            }
            FromHost::Cancelled(id) => {
                assert_eq!(message["method"], "notifications/cancelled");
                is_of(id, &message["params"]["requestId"]);
            }
            FromHost::Notification => assert!(has("method") && !has("id")),
            FromHost::Other => assert!(!message.is_object() || !has("method")),
        }
    }

    fn of_server(found: &FromServer, message: &Value) {
        let has = |name: &str| message.get(name).is_some();
        match found {
            FromServer::Response(response) => {
                assert!(!has("method"));
                assert_eq!(response.is_error, has("error"));
                assert!(response.answer.is_some());
                is_of(&response.id, &message["id"]);
            }
            FromServer::Request(id, _) => {
                assert!(has("method"));
                is_of(id, &message["id"]);
            }
            FromServer::Cancelled(id) => is_of(id, &message["params"]["requestId"]),
            FromServer::Progress => assert_eq!(message["method"], "notifications/progress"),
            FromServer::Other => {
                assert!(!has("id") || !(has("method") || has("result") || has("error")))
            }
        }
    }

    /// However it is written, an ID that is text or a whole number is the same.
    fn is_of(id: &Id, value: &Value) {
        if value.is_string() || value.is_i64() || value.is_u64() {
            assert_eq!(id, &Id::of(&value.to_string()));
        }
    }
}

fuzz_target!(|bytes: &[u8]| bounded(bytes, lazy::check));
