//! Parts that the tests of the kit's own parts share.

#![expect(dead_code, reason = "each test binary uses a part of it")]

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcp_lifecycle_conformance::alive::{AliveConn, AliveListener};
use mcp_lifecycle_conformance::census::Census;
use mcp_lifecycle_conformance::deadline::Watchdog;
use serde_json::{Value, json};

/// Far more than anything here takes; reached only by a failure.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A census counts the whole process, so that tests take turns.
static TURN: Mutex<()> = Mutex::new(());

/// One test: watchdog, observer, and the census that must be the same after it.
pub(crate) struct Rig {
    pub(crate) alive: AliveListener,
    before: Census,
    watchdog: Watchdog,
    turn: MutexGuard<'static, ()>,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::on(AliveListener::unix)
    }

    pub(crate) fn on(listen: fn() -> io::Result<AliveListener>) -> Self {
        // First of all: a listener has descriptors of its own.
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        Self {
            alive: listen().unwrap(),
            watchdog: Watchdog::arm("a test of the kit", LIMIT * 3),
            before: Census::take().without_threads(),
            turn,
        }
    }

    /// Starts a fixture that reports to this rig.
    pub(crate) fn start(&self, args: &[&str]) -> Server {
        Server::start(args.iter().copied(), &["--alive", &self.alive.address()])
    }

    pub(crate) fn accept(&self, role: &str) -> AliveConn {
        self.alive
            .block_on(self.alive.accept(role, LIMIT))
            .unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn ping(&self, conn: &AliveConn) {
        self.alive.block_on(conn.ping(LIMIT)).unwrap();
    }

    pub(crate) fn event(&self, conn: &AliveConn, event: &str) -> String {
        self.alive.block_on(conn.event(event, LIMIT)).unwrap()
    }

    pub(crate) fn wait_dead(&self, conn: &AliveConn) {
        self.alive.block_on(conn.wait_dead(LIMIT)).unwrap();
    }

    /// Ends the observer alone; the watchdog goes on, and so does the turn.
    pub(crate) fn end_observer(self) -> impl Sized {
        (self.watchdog, self.turn)
    }

    /// Everybody is dead, and this process holds on to nothing.
    pub(crate) fn finish(self) {
        self.alive
            .block_on(self.alive.expect_all_dead(LIMIT))
            .unwrap_or_else(|error| panic!("{error}"));
        self.before
            .settle(LIMIT)
            .unwrap_or_else(|difference| panic!("{difference}"));
    }
}

/// A fixture as a bare child process.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: BufReader<ChildStdout>,
}

impl Server {
    pub(crate) fn start<'a>(args: impl Iterator<Item = &'a str>, more: &[&str]) -> Self {
        Self::start_program(env!("CARGO_BIN_EXE_mcp-fixture"), args, more)
    }

    pub(crate) fn start_program<'a>(
        program: &str,
        args: impl Iterator<Item = &'a str>,
        more: &[&str],
    ) -> Self {
        let mut child = Command::new(program)
            .args(args)
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        Self {
            stdin: child.stdin.take(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    pub(crate) fn send(&mut self, message: &Value) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(format!("{message}\n").as_bytes()).unwrap();
    }

    pub(crate) fn read_line(&mut self) -> Vec<u8> {
        let mut line = Vec::new();
        self.stdout.read_until(b'\n', &mut line).unwrap();
        line
    }

    pub(crate) fn read(&mut self) -> Value {
        let line = self.read_line();
        serde_json::from_slice(&line)
            .unwrap_or_else(|error| panic!("{error}: {:?}", String::from_utf8_lossy(&line)))
    }

    pub(crate) fn ask(&mut self, message: &Value) -> Value {
        self.send(message);
        self.read()
    }

    /// The legacy handshake.
    pub(crate) fn initialize(&mut self) -> Value {
        let answer = self.ask(&json!({
            "jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": {"protocolVersion": "2025-11-25", "capabilities": {},
                       "clientInfo": {"name": "test", "version": "0"}},
        }));
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        answer
    }

    pub(crate) fn send_call(&mut self, id: u32, tool: &str, arguments: &Value) {
        self.send(&json!({
            "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": tool, "arguments": arguments},
        }));
    }

    pub(crate) fn call(&mut self, id: u32, tool: &str, arguments: &Value) -> Value {
        self.send_call(id, tool, arguments);
        self.read()
    }

    pub(crate) fn close_stdin(&mut self) {
        drop(self.stdin.take());
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The exit code, once it has exited by itself.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing happens to one that was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
