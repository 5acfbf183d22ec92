//! Servers whose output is too much, or not what it should be.

use std::io::{self, Write};
use std::thread;

use serde_json::{Value, json};

use crate::program::args::{Args, Stage};
use crate::program::message::Message;
use crate::program::protocol::{discover, success};
use crate::program::serve::{Behaviour, Flow, Output, Server};

/// The line of [`Report`] on standard error.
pub(crate) const ON_STDERR: &str = "mcp-fixture says this on standard error";

/// A revision that no client knows.
const UNKNOWN_VERSION: &str = "1999-01-01";

/// Has [`Report`] wait for a message.
pub(crate) const WHEN_ASKED: &str = "--when-asked";

/// Says what was delivered to it, and first of all something on standard error.
pub(super) struct Report;

impl Behaviour for Report {
    fn at_start(&mut self, server: &Server) {
        if !std::env::args().any(|arg| arg == WHEN_ASKED) {
            Self::tell(server);
        }
    }

    fn on_message(&mut self, server: &Server, _message: &Message) -> Flow {
        if std::env::args().any(|arg| arg == WHEN_ASKED) {
            Self::tell(server);
        }
        Flow::Answer
    }
}

impl Report {
    fn tell(server: &Server) {
        let _ = writeln!(io::stderr(), "{ON_STDERR}");
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        let env: serde_json::Map<_, _> = std::env::vars_os()
            .map(|(name, value)| (text(name), text(value).into()))
            .collect();
        server.out.message(&json!({
            "args": std::env::args().skip(1).collect::<Vec<_>>(),
            "cwd": std::env::current_dir().unwrap_or_default(),
            "env": env,
        }));
    }
}

/// Deadlocks with a client that does not drain stderr.
#[derive(Default)]
pub(super) struct StderrFlood {
    done: bool,
}

impl Behaviour for StderrFlood {
    fn on_message(&mut self, server: &Server, _message: &Message) -> Flow {
        if !std::mem::replace(&mut self.done, true) {
            const LINE: &[u8; 64] =
                b"a line of sixty-four bytes that says nothing of any importance\n\n";
            // Many at once: under wine a write takes as long as a message to another process.
            let lines = LINE.repeat(64);
            let mut stderr = io::stderr().lock();
            for _ in 0..server.context.args.bytes.div_ceil(lines.len()) {
                if stderr.write_all(&lines).is_err() {
                    break;
                }
            }
        }
        Flow::Answer
    }
}

/// Writes as fast as it can, for as long as it lives.
pub(super) struct StdoutFlood;

impl Behaviour for StdoutFlood {
    fn at_start(&mut self, server: &Server) {
        if server.context.args.at == Stage::Handshake {
            flood(server.out.clone());
        }
    }

    fn after_handshake(&mut self, server: &Server) {
        if server.context.args.at == Stage::Call {
            flood(server.out.clone());
        }
    }
}

fn flood(out: Output) {
    let mut lines = json!({
        "jsonrpc": "2.0",
        "method": "notifications/message",
        "params": {"level": "info", "data": "flood"},
    })
    .to_string();
    lines.push_str("\nthis line is not a message\n");
    thread::spawn(move || while out.raw(lines.as_bytes()).is_ok() {});
}

/// Prints what belongs on stderr, or nowhere.
pub(super) struct Junk;

impl Behaviour for Junk {
    fn at_start(&mut self, server: &Server) {
        let _ = server
            .out
            .raw(b"Starting server...\n\n\x1b[32mready\x1b[0m on stdio\n");
    }

    fn on_message(&mut self, server: &Server, _message: &Message) -> Flow {
        let _ = server
            .out
            .raw(b"{not json\n[]\nnull\n\"text\"\n \t \n{\"level\":30,\"msg\":\"log\"}\n");
        Flow::Answer
    }
}

/// Answers with a line that is not a message.
pub(super) struct Malformed(pub(super) fn(&Args, &Value) -> Vec<u8>);

impl Behaviour for Malformed {
    fn on_message(&mut self, server: &Server, message: &Message) -> Flow {
        let args = &server.context.args;
        match &message.id {
            Some(id) if args.at.is_reached_by(message) => {
                let mut line = (self.0)(args, id);
                line.push(b'\n');
                let _ = server.out.raw(&line);
                Flow::Handled
            }
            _ => Flow::Answer,
        }
    }
}

/// A proper answer but for its length.
pub(super) fn oversized(args: &Args, id: &Value) -> Vec<u8> {
    let text = "x".repeat(args.bytes);
    let result = json!({"content": [{"type": "text", "text": text}]});
    success(id, result).to_string().into_bytes()
}

pub(super) fn invalid_utf8(_args: &Args, id: &Value) -> Vec<u8> {
    let mut line = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"text":""#).into_bytes();
    line.extend(b"\xff\xfe\xc3\x28");
    line.extend(br#""}}"#);
    line
}

pub(super) fn invalid_json(_args: &Args, id: &Value) -> Vec<u8> {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":["#).into_bytes()
}

/// Speaks a revision of its own.
pub(super) struct WrongVersion;

impl Behaviour for WrongVersion {
    fn on_message(&mut self, server: &Server, message: &Message) -> Flow {
        let Some(id) = &message.id else {
            return Flow::Answer;
        };
        let result = match message.method.as_str() {
            "server/discover" => discover(&[UNKNOWN_VERSION]),
            "initialize" => json!({
                "protocolVersion": UNKNOWN_VERSION,
                "capabilities": {},
                "serverInfo": {"name": "mcp-fixture", "version": "0"},
            }),
            _ => return Flow::Answer,
        };
        server.out.message(&success(id, result));
        Flow::Handled
    }
}
