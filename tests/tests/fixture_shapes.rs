//! The shapes that are alone.

mod common;

use std::io::{Read, Write};
use std::time::Duration;

use common::Rig;
use mcp_lifecycle_conformance::alive::AliveError;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::{Value, json};

fn signal(server: &common::Server, signal: Signal) {
    let group = Pid::from_raw(i32::try_from(server.child.id()).unwrap());
    killpg(group, signal).unwrap();
}

#[test]
fn eof_is_ignored_and_sigterm_is_not() {
    let rig = Rig::new();
    let mut server = rig.start(&["ignore-eof"]);
    let process = rig.accept("server");
    server.close_stdin();
    rig.event(&process, "eof");
    rig.ping(&process);
    signal(&server, Signal::SIGTERM);
    assert_eq!(server.exit_code(), None, "SIGTERM ends it");
    rig.wait_dead(&process);
    assert_eq!(process.events(), ["eof", "sigterm"]);
    drop(server);
    rig.finish();
}

#[test]
fn eof_and_sigterm_are_ignored() {
    let rig = Rig::new();
    let mut server = rig.start(&["ignore-eof-term"]);
    let process = rig.accept("server");
    rig.ping(&process);
    server.close_stdin();
    rig.event(&process, "eof");
    signal(&server, Signal::SIGTERM);
    rig.event(&process, "sigterm");
    rig.ping(&process);
    server.kill();
    drop(server);
    rig.finish();
}

#[test]
fn a_slow_server_exits_when_it_is_let() {
    let rig = Rig::new();
    let mut server = rig.start(&["slow-eof"]);
    let process = rig.accept("server");
    server.close_stdin();
    rig.event(&process, "eof");
    rig.ping(&process);
    process.step();
    assert_eq!(server.exit_code(), Some(0));
    let mut bounded = rig.start(&["slow-eof", "--linger-ms", "1"]);
    bounded.close_stdin();
    assert_eq!(bounded.exit_code(), Some(0));
    drop((server, bounded));
    rig.finish();
}

#[test]
fn a_stopped_server_is_silent_until_it_is_continued() {
    let rig = Rig::new();
    let mut server = rig.start(&["sigstop"]);
    let process = rig.accept("server");
    server.initialize();
    rig.event(&process, "stopping");
    let stat = || std::fs::read_to_string(format!("/proc/{}/stat", process.pid())).unwrap();
    while !stat().contains(") T ") {
        std::thread::yield_now();
    }
    let silence = rig.alive.block_on(process.ping(Duration::from_millis(50)));
    assert!(matches!(silence, Err(AliveError::TimedOut { .. })));
    signal(&server, Signal::SIGCONT);
    rig.ping(&process);
    drop(server);
    rig.finish();
}

#[test]
#[cfg(target_os = "linux")]
fn a_stopped_server_that_nobody_continues_is_killed_after_its_lifetime() {
    let rig = Rig::new();
    let mut server = rig.start(&["sigstop", "--lifetime-s", "1"]);
    let process = rig.accept("server");
    server.initialize();
    rig.event(&process, "stopping");
    rig.wait_dead(&process);
    drop(server);
    rig.finish();
}

#[test]
fn a_silent_server_reads_and_a_deaf_one_does_not() {
    let rig = Rig::new();
    let mut silent = rig.start(&["never-answers"]);
    silent.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize"}));
    rig.event(&rig.accept("server"), "unanswered initialize");
    silent.close_stdin();
    assert_eq!(silent.exit_code(), Some(0));

    let mut deaf = rig.start(&["never-reads-stdin"]);
    let process = rig.accept("server");
    deaf.initialize();
    rig.event(&process, "deaf");
    deaf.close_stdin();
    rig.ping(&process);
    drop((silent, deaf));
    rig.finish();
}

#[test]
fn servers_exit_at_every_stage() {
    let rig = Rig::new();
    let mut server = rig.start(&["crash-loop", "--code", "9"]);
    assert_eq!(server.exit_code(), Some(9));
    drop(server);
    let mut server = rig.start(&["exits-during-handshake", "--code", "3"]);
    server.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover"}));
    assert_eq!(server.exit_code(), Some(3));
    drop(server);
    let mut server = rig.start(&["handshake-then-exit", "--code", "4"]);
    server.initialize();
    assert_eq!(server.exit_code(), Some(4));
    drop(server);
    let mut server = rig.start(&["dies-mid-call", "--code", "5"]);
    server.initialize();
    server.send_call(1, "echo", &json!({}));
    assert!(!server.read_line().ends_with(b"\n"));
    assert_eq!(server.exit_code(), Some(5));
    drop(server);
    rig.finish();
}

#[test]
fn malformed_answers_come_where_they_are_asked_for() {
    let rig = Rig::new();
    let mut server = rig.start(&["invalid-utf8"]);
    server.initialize();
    server.send_call(1, "echo", &json!({}));
    assert!(String::from_utf8(server.read_line()).is_err());
    drop(server);

    let mut server = rig.start(&["invalid-json", "--at", "handshake"]);
    server.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize"}));
    let line = server.read_line();
    assert!(line.ends_with(b"\n") && serde_json::from_slice::<Value>(&line).is_err());
    drop(server);

    let mut server = rig.start(&["oversized-line", "--bytes", "300000"]);
    server.initialize();
    let answer = server.call(1, "echo", &json!({}));
    assert!(answer.to_string().len() > 300_000);
    drop(server);

    let mut server = rig.start(&["wrong-version"]);
    let answer = server.initialize();
    assert_eq!(answer["result"]["protocolVersion"], "1999-01-01");
    drop(server);
    rig.finish();
}

#[test]
fn junk_and_floods_surround_proper_answers() {
    let rig = Rig::new();
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let answer = b"\"result\":{}}\n";

    let mut junk = rig.start(&["junk-stdout"]);
    junk.send(&ping);
    let lines = std::iter::from_fn(|| Some(junk.read_line()));
    let before = lines.take_while(|line| !line.ends_with(answer)).count();
    assert_eq!(before, 9, "three lines at the start, six before the answer");

    let mut flood = rig.start(&["stdout-flood", "--at", "handshake"]);
    flood.send(&ping);
    while !flood.read_line().ends_with(answer) {}
    for _ in 0..10_000 {
        assert!(flood.read_line().ends_with(b"\n"));
    }
    drop((junk, flood));
    rig.finish();
}

#[test]
fn a_stderr_flood_comes_before_the_first_answer() {
    let rig = Rig::new();
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_mcp-fixture"))
        .args(["stderr-flood", "--alive", &rig.alive.address()])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let ping = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
    child.stdin.as_mut().unwrap().write_all(ping).unwrap();
    let mut flood = vec![0; 8 << 20];
    child
        .stderr
        .as_mut()
        .unwrap()
        .read_exact(&mut flood)
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.stderr.is_empty(), "8 MiB and no more");
    assert!(output.stdout.ends_with(b"\"result\":{}}\n"));
    rig.finish();
}

#[test]
fn a_wrong_command_line_is_refused_with_its_own_code() {
    let rig = Rig::new();
    for args in [&["nonsense"][..], &["colony"], &["plain", "--bytes", "x"]] {
        let mut server = rig.start(args);
        assert_eq!(server.exit_code(), Some(96), "{args:?}");
    }
    let mut server = common::Server::start(["plain"].into_iter(), &["--alive", "unix:/nowhere/s"]);
    assert_eq!(server.exit_code(), Some(97));
    drop(server);
    rig.finish();
}

#[test]
fn without_an_observer_the_lifetime_is_bounded() {
    let rig = Rig::new();
    let mut server = common::Server::start(["linger", "--lifetime-s", "1"].into_iter(), &[]);
    assert_eq!(server.exit_code(), None, "an alarm ends it");
    drop(server);

    rig.finish();
}
