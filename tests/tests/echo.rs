//! The benchmark server answers as a real one would.

mod common;

use common::{Rig, Server};
use serde_json::{Value, json};

fn start() -> Server {
    Server::start_program(env!("CARGO_BIN_EXE_mcp-echo"), std::iter::empty(), &[])
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap()
}

#[test]
fn it_answers_in_both_eras_and_copies_verbatim() {
    let rig = Rig::new();
    let mut server = start();
    let answer = server.initialize();
    assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
    for nasty in ["", "a\"b\\", "}]{[,:", "\u{1F600}\n\t", "\\\\\""] {
        let answer = server.call(1, "echo", &json!({"text": nasty}));
        assert_eq!(text(&answer), nasty);
    }
    let meta =
        json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "x": ["]", {"y": 1}]});
    let answer = server.ask(&json!({
        "id": "an id", "params": {"_meta": meta, "name": "blob", "arguments": {"bytes": 70_000}},
        "method": "tools/call", "jsonrpc": "2.0",
    }));
    assert_eq!(answer["id"], "an id");
    assert_eq!(answer["result"]["resultType"], "complete");
    assert_eq!(text(&answer).len(), 70_000);
    let answer = server.ask(&json!({
        "jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta},
    }));
    assert_eq!(answer["result"]["supportedVersions"], json!(["2026-07-28"]));
    server.close_stdin();
    assert_eq!(server.exit_code(), Some(0));
    drop(server);
    rig.finish();
}

#[test]
fn it_answers_batches_and_lines_larger_than_its_buffer() {
    let rig = Rig::new();
    let mut server = start();
    for id in 0..100 {
        server.send_call(id, "echo", &json!({"text": id.to_string()}));
    }
    for id in 0..100 {
        let answer = server.read();
        assert_eq!(
            (&answer["id"], text(&answer)),
            (&json!(id), &*id.to_string())
        );
    }
    let large = "y".repeat(1 << 20);
    assert_eq!(
        text(&server.call(7, "echo", &json!({"text": large}))),
        large
    );
    drop(server);
    rig.finish();
}
