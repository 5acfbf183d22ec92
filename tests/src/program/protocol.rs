//! The answers of a well-behaved server, in both eras of the protocol.

use serde_json::{Value, json};

use crate::program::args::Era;
use crate::program::message::Message;

/// The revision without a handshake.
pub(crate) const MODERN: &str = "2026-07-28";
/// The revisions with one, newest first.
const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

const INVALID_PARAMS: i64 = -32602;
const METHOD_NOT_FOUND: i64 = -32601;
const UNSUPPORTED_VERSION: i64 = -32022;

/// The answer to anything but a tool call; `None` for a notification.
pub(crate) fn answer(message: &Message, era: Era) -> Option<Value> {
    let id = message.id.as_ref()?;
    if let Some(version) = message.modern_version()
        && era != Era::Legacy
        && version != MODERN
    {
        return Some(unsupported(id, version));
    }
    Some(match message.method.as_str() {
        "server/discover" if era != Era::Legacy => match message.modern_version() {
            Some(_) => success(id, discover(&[MODERN])),
            None => failure(id, INVALID_PARAMS, "_meta states no protocol version"),
        },
        "initialize" if era != Era::Modern => success(id, initialize(message)),
        "initialize" => unsupported(id, message.params["protocolVersion"].as_str().unwrap_or("")),
        "ping" => success(id, json!({})),
        "tools/list" => success(id, in_era(message, list_tools())),
        _ => failure(id, METHOD_NOT_FOUND, "method not found"),
    })
}

/// A successful answer.
pub(crate) fn success(id: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

/// An answer that reports an error.
pub(crate) fn failure(id: &Value, code: i64, text: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}})
}

/// The result of a tool call, or a list, with what the modern era requires.
pub(crate) fn in_era(message: &Message, mut result: Value) -> Value {
    if message.modern_version().is_some() {
        result["resultType"] = "complete".into();
        if message.method.ends_with("/list") {
            result["ttlMs"] = 0.into();
            result["cacheScope"] = "private".into();
        }
    }
    result
}

/// The result of `server/discover`.
pub(crate) fn discover(versions: &[&str]) -> Value {
    json!({
        "resultType": "complete",
        "supportedVersions": versions,
        "capabilities": {"tools": {}},
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {"io.modelcontextprotocol/serverInfo": server_info()},
    })
}

fn unsupported(id: &Value, requested: &str) -> Value {
    let mut error = failure(id, UNSUPPORTED_VERSION, "unsupported protocol version");
    error["error"]["data"] = json!({"supported": [MODERN], "requested": requested});
    error
}

fn initialize(message: &Message) -> Value {
    let asked = message.params["protocolVersion"].as_str();
    let version = LEGACY.iter().find(|version| Some(**version) == asked);
    json!({
        "protocolVersion": version.unwrap_or(&LEGACY[0]),
        "capabilities": {"tools": {}},
        "serverInfo": server_info(),
    })
}

fn server_info() -> Value {
    json!({"name": "mcp-fixture", "version": env!("CARGO_PKG_VERSION")})
}

fn list_tools() -> Value {
    let tool = |name: &str, argument: &str, kind: &str| {
        json!({
            "name": name,
            "inputSchema": {"type": "object", "properties": {argument: {"type": kind}}},
        })
    };
    json!({"tools": [
        tool("echo", "text", "string"),
        tool("blob", "bytes", "integer"),
        tool("block", "reason", "string"),
        tool("progress", "steps", "integer"),
        tool("exit", "code", "integer"),
        tool("crash", "reason", "string"),
        tool("stderr", "lines", "integer"),
    ]})
}
