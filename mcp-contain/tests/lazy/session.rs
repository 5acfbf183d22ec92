//! A host that speaks, and a server that is a script.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::host::{Alive, DEADLINE, Server, Streams, wrapped};

/// A server of both eras. Says `x` to the FIFO when it starts, and `s` when it is silent; writes down every line that it gets.
const SERVER: &str = r#"
printf x >&9
while IFS= read -r line; do
  printf '%s\n' "$line" >>heard
  id=${line#*'"id":'}; id=${id%%[,\}]*}
  case $line in
    *'"method":"initialize"'*) IFS= read -r answer <initialize; printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$answer";;
    *'"method":"tools/list"'*) IFS= read -r answer <tools; printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$answer";;
    *'"method":"notifications/'*) ;;
    *'"name":"exit"'*) exit 7;;
    *'"name":"crash"'*) kill -KILL $$;;
    *'"name":"deaf"'*) exec <&-; printf '{"jsonrpc":"2.0","id":%s,"result":{}}\n' "$id"; exec sleep 1000;;
    *'"method":"server/discover"'*) IFS= read -r answer <discover; printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$answer";;
    *'"name":"silent"'*) printf s >&9;;
    *'"name":"stuck"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{}}\n' "$id"; while :; do read never <&8; done;;
    *) printf '{"id": %s, "result" : {"content":[]},"jsonrpc":"2.0" }\n' "$id";;
  esac
done
"#;

/// A home with a cache, and a server that is always the same.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) alive: Alive,
}

impl Place {
    pub(crate) fn new() -> Self {
        let place = Self {
            alive: Alive::new(),
        };
        place.write("initialize", r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"s","version":"1"}}"#);
        place.write("tools", r#"{"tools":[{"name":"one"}]}"#);
        place.write(
            "discover",
            r#"{"supportedVersions":["2026-07-28"],"capabilities":{}}"#,
        );
        place
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.alive.file(name), format!("{text}\n")).unwrap();
    }

    /// The messages that all servers were sent since the last time.
    pub(crate) fn heard(&self) -> Vec<String> {
        let file = self.alive.file("heard");
        let text = fs::read_to_string(&file).unwrap_or_default();
        let _ = fs::remove_file(file);
        text.lines().map(str::to_owned).collect()
    }

    pub(crate) fn session(&self, options: &[&str]) -> Session {
        Session::of(&mut self.command(options), Streams::Pipes)
    }

    /// The command of a session.
    pub(crate) fn command(&self, options: &[&str]) -> Command {
        let script = self.alive.script(SERVER);
        self.wrapped(&[options, &["sh", "-c", &script]].concat())
    }

    /// The wrapper in this home; no search for orphans of another test finds its servers.
    pub(crate) fn wrapped(&self, words: &[&str]) -> Command {
        let mut command = wrapped(words);
        command.env("HOME", self.alive.file(""));
        command.env("MCP_LIFECYCLE_STATE_DIR", self.alive.file("state"));
        command
    }

    /// A session that has filled the cache, and has ended.
    pub(crate) fn learn(&mut self) {
        let mut session = self.session(&["--lazy"]);
        session.open();
        self.alive.ready(1);
        session.call("tools/list", json!({}));
        assert!(session.end().success());
        self.alive.nobody_is_left();
        self.heard();
    }
}

/// A host and its server.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) server: Server,
    /// The time for a line.
    pub(crate) patience: Duration,
    lines: mpsc::Receiver<String>,
    next: u64,
}

impl Session {
    pub(crate) fn start(place: &Place, words: &[&str], streams: Streams) -> Self {
        Self::of(&mut place.wrapped(words), streams)
    }

    pub(crate) fn of(command: &mut Command, streams: Streams) -> Self {
        let server = Server::start(command, streams);
        let stdout = BufReader::new(server.stdout.try_clone().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            let mut stdout = stdout.lines();
            while let Some(Ok(line)) = stdout.next() {
                let _ = sender.send(line);
            }
        });
        Self {
            server,
            patience: DEADLINE,
            lines,
            next: 0,
        }
    }

    pub(crate) fn say(&mut self, line: &str) {
        let stdin = self.server.stdin.as_mut().unwrap();
        stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// The next line, in time.
    pub(crate) fn line(&self) -> String {
        self.lines
            .recv_timeout(self.patience)
            .expect("a line in time")
    }

    /// A line that has arrived.
    pub(crate) fn next_line(&self) -> Option<String> {
        self.lines.try_recv().ok()
    }

    /// Sends a request, and returns its id.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next;
        self.next += 1;
        self.say(&format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}"
        ));
        id
    }

    /// The answer to the next request.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        let answer: Value = serde_json::from_str(&self.line()).unwrap();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// Calls a tool that answers.
    pub(crate) fn work(&mut self) {
        assert_eq!(
            self.call("tools/call", json!({"name": "one"}))["result"],
            json!({"content": []})
        );
    }

    /// The handshake.
    pub(crate) fn open(&mut self) {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "h", "version": "1"}});
        let answer = self.call("initialize", params);
        assert_eq!(
            answer["result"]["protocolVersion"], "2025-11-25",
            "{answer}"
        );
        self.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    }

    /// Closes the host's end, and waits.
    pub(crate) fn end(mut self) -> ExitStatus {
        self.server.stdin = None;
        let (status, said) = self.server.ended();
        assert_eq!(said, "");
        status
    }

    /// Sends a signal to the relay, and waits.
    pub(crate) fn killed_by(self, signal: Signal) -> Option<i32> {
        self.server.signal(signal);
        self.server.ended().0.signal()
    }
}
