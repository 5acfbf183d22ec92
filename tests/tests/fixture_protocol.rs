//! The fixture's well-behaved side: both eras, and the tools.

mod common;

use common::{Rig, Server};
use serde_json::{Value, json};

const META: &str = "io.modelcontextprotocol/protocolVersion";

fn discover(server: &mut Server, version: &str) -> Value {
    server.ask(&json!({
        "jsonrpc": "2.0", "id": 1, "method": "server/discover",
        "params": {"_meta": {META: version}},
    }))
}

fn error_code(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap()
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap()
}

#[test]
fn it_speaks_the_legacy_era() {
    let rig = Rig::new();
    let mut server = rig.start(&["plain"]);
    let answer = server.initialize();
    assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
    let answer = server.call(2, "echo", &json!({"text": "hello"}));
    assert_eq!(text(&answer), "hello");
    assert!(answer["result"].get("resultType").is_none());
    server.close_stdin();
    assert_eq!(server.exit_code(), Some(0));
    drop(server);
    rig.finish();
}

#[test]
fn it_speaks_the_modern_era_and_refuses_what_it_does_not_know() {
    let rig = Rig::new();
    let mut server = rig.start(&["plain"]);
    assert_eq!(error_code(&discover(&mut server, "2030-01-01")), -32022);
    let result = discover(&mut server, "2026-07-28")["result"].take();
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["supportedVersions"], json!(["2026-07-28"]));
    let answer = server.ask(&json!({
        "jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {"_meta": {META: "2026-07-28"}},
    }));
    assert_eq!(answer["result"]["cacheScope"], "private");
    assert!(answer["result"]["tools"].as_array().unwrap().len() >= 7);
    server.close_stdin();
    assert_eq!(server.exit_code(), Some(0));
    drop(server);
    rig.finish();
}

#[test]
fn an_era_can_be_refused() {
    let rig = Rig::new();
    let mut legacy = rig.start(&["plain", "--era", "legacy"]);
    assert_eq!(error_code(&discover(&mut legacy, "2026-07-28")), -32601);
    let mut modern = rig.start(&["plain", "--era", "modern"]);
    assert_eq!(error_code(&modern.initialize()), -32022);
    drop((legacy, modern));
    rig.finish();
}

#[test]
fn a_blocked_call_reports_its_cancellation() {
    let rig = Rig::new();
    let mut server = rig.start(&["plain"]);
    let process = rig.accept("server");
    server.send_call(7, "block", &json!({}));
    assert_eq!(rig.event(&process, "blocking"), "blocking 7");
    server.send(&json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7},
    }));
    assert_eq!(rig.event(&process, "cancelled"), "cancelled 7");
    drop(server);
    rig.finish();
}

#[test]
fn progress_is_paced_by_the_observer() {
    let rig = Rig::new();
    let mut server = rig.start(&["plain"]);
    let process = rig.accept("server");
    server.send(&json!({
        "jsonrpc": "2.0", "id": 3, "method": "tools/call",
        "params": {"name": "progress", "arguments": {"steps": 2}, "_meta": {"progressToken": "t"}},
    }));
    for step in 1..=2 {
        rig.ping(&process);
        assert_eq!(
            process.events().len(),
            step - 1,
            "not before it is released"
        );
        process.step();
        let note = server.read();
        assert_eq!(note["params"]["progressToken"], "t");
        assert_eq!(note["params"]["progress"], step);
        rig.event(&process, &format!("progress {step}"));
    }
    assert_eq!(text(&server.read()), "done");
    drop(server);
    rig.finish();
}

#[test]
fn tools_make_the_server_large_loud_or_dead() {
    let rig = Rig::new();
    let mut server = rig.start(&["plain"]);
    let answer = server.call(1, "blob", &json!({"bytes": 100_000}));
    assert_eq!(text(&answer).len(), 100_000);
    server.call(2, "stderr", &json!({"lines": 3}));
    assert_eq!(error_code(&server.call(3, "nothing", &json!({}))), -32602);
    server.send_call(4, "exit", &json!({"code": 7}));
    assert_eq!(server.exit_code(), Some(7));
    let mut crashing = rig.start(&["plain"]);
    crashing.send_call(1, "crash", &json!({}));
    assert_eq!(crashing.exit_code(), None, "a signal ends it");
    drop((server, crashing));
    rig.finish();
}
