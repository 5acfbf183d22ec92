//! The tools that every shape offers.

use std::io::{self, Write};
use std::sync::PoisonError;
use std::{process, thread};

use serde_json::{Value, json};

use crate::program::message::Message;
use crate::program::protocol::{failure, in_era, success};
use crate::program::serve::{Output, Server};

/// Answers a `tools/call`.
pub(crate) fn call(server: &Server, message: &Message) {
    let Some(id) = &message.id else { return };
    let text = match message.tool() {
        Some("echo") => message.argument("text").as_str().unwrap_or("").to_owned(),
        Some("blob") => "x".repeat(usize::try_from(message.number("bytes")).unwrap_or(0)),
        Some("stderr") => stderr(message.number("lines")),
        Some("block") => return block(server, message, id),
        Some("progress") => return progress(server, message.clone()),
        Some("exit") => process::exit(i32::try_from(message.number("code")).unwrap_or(0)),
        Some("crash") => process::abort(),
        _ => return server.out.message(&failure(id, -32602, "unknown tool")),
    };
    reply(&server.out, message, &text);
}

fn reply(out: &Output, message: &Message, text: &str) {
    if let Some(id) = &message.id {
        let result = json!({"content": [{"type": "text", "text": text}]});
        out.message(&success(id, in_era(message, result)));
    }
}

/// Never answers; the observer learns of the call and of its cancellation.
fn block(server: &Server, message: &Message, id: &Value) {
    let mut blocked = server
        .blocked
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    blocked.insert(message.id_text(), id.clone());
    server.context.event(&format!("blocking {id}"));
}

/// Reports progress, one notification per step that the observer releases.
fn progress(server: &Server, message: Message) {
    let context = server.context.clone();
    let out = server.out.clone();
    // In a thread: the server goes on reading, and so may be cancelled or ended.
    thread::spawn(move || {
        let steps = message.number("steps");
        let token = &message.params["_meta"]["progressToken"];
        for step in 1..=steps {
            if let Some(alive) = &context.alive {
                alive.step(None);
            }
            if !token.is_null() {
                out.message(&json!({
                    "jsonrpc": "2.0",
                    "method": "notifications/progress",
                    "params": {"progressToken": token, "progress": step, "total": steps},
                }));
            }
            context.event(&format!("progress {step}"));
        }
        reply(&out, &message, "done");
    });
}

fn stderr(lines: u64) -> String {
    let mut stderr = io::stderr().lock();
    for line in 1..=lines {
        if writeln!(stderr, "stderr line {line}").is_err() {
            break;
        }
    }
    format!("{lines} lines")
}
