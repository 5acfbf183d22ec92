//! `ps`, `stop`, `reap` and `doctor`, on real servers.

#![cfg(target_os = "linux")]

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

#[path = "operate/asked.rs"]
mod asked;
#[path = "operate/attended.rs"]
mod attended;
#[path = "operate/bereaved.rs"]
mod bereaved;
#[path = "operate/companion.rs"]
mod companion;
#[path = "operate/demo.rs"]
mod demo;
#[path = "operate/doctor.rs"]
mod doctor;
#[path = "operate/engine.rs"]
mod engine;
#[path = "operate/foreign.rs"]
mod foreign;
#[path = "operate/logs.rs"]
mod logs;
#[path = "operate/meant.rs"]
mod meant;
#[path = "operate/reap.rs"]
mod reap;
#[path = "operate/stats.rs"]
mod stats;
#[path = "operate/unmarked.rs"]
mod unmarked;
#[path = "operate/unproven.rs"]
mod unproven;
#[path = "operate/upgrade.rs"]
mod upgrade;

const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-contain");

/// The time after which a step that never takes long has failed.
const DEADLINE: Duration = Duration::from_secs(60);

/// A home, a directory of state, and a server that no signal but SIGKILL ends.
struct Place {
    directory: tempfile::TempDir,
    name: String,
    /// The wrapper that its servers get.
    program: PathBuf,
}

impl Place {
    fn new(name: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let name = format!("mcp-server-{name}-{}", std::process::id());
        let script = directory.path().join(&name);
        let deaf = "#!/bin/sh\ntrap '' TERM INT HUP\necho ready\nwhile :; do sleep 0.2; done\n";
        mcp_lifecycle_conformance::copies::script(&script, deaf, 0o755).unwrap();
        let program = PathBuf::from(PROGRAM);
        Self {
            directory,
            name,
            program,
        }
    }

    fn script(&self) -> PathBuf {
        self.directory.path().join(&self.name)
    }

    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        let state = self.directory.path().join("state");
        command.env("MCP_LIFECYCLE_STATE_DIR", state);
        command
            .env("HOME", self.directory.path())
            .env_remove("XDG_CONFIG_HOME");
        command.current_dir(self.directory.path());
        command
    }

    fn call(&self, words: &[&str]) -> Output {
        self.command(PROGRAM).args(words).output().unwrap()
    }

    #[track_caller]
    fn json(&self, words: &[&str]) -> Value {
        let output = self.call(words);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {errors}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Starts it as a host does, and waits until it runs.
    fn start(&self) -> (Child, BufReader<ChildStdout>) {
        self.start_with(&[])
    }

    /// The same, with these options.
    fn start_with(&self, options: &[&str]) -> (Child, BufReader<ChildStdout>) {
        self.start_by(options, |_| {})
    }

    /// The same, with something changed of the command.
    fn start_by(
        &self,
        options: &[&str],
        change: impl FnOnce(&mut Command),
    ) -> (Child, BufReader<ChildStdout>) {
        let mut command = self.command(&self.program);
        change(&mut command);
        let command = command.args(options).arg(self.script());
        let (child, stdout) = started(command);
        becomes_the_shim(&child);
        (child, stdout)
    }
}

/// Starts a command as a host does, and waits until its server runs.
fn started(command: &mut Command) -> (Child, BufReader<ChildStdout>) {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    (child, stdout)
}

/// Waits for that: the program runs a moment before.
fn becomes_the_shim(wrapper: &Child) {
    let end = Instant::now() + DEADLINE;
    let words = || fs::read_to_string(format!("/proc/{}/cmdline", wrapper.id())).unwrap();
    while words().split('\0').nth(1) != Some("shim") {
        assert!(Instant::now() < end, "it does not become the shim");
        thread::yield_now();
    }
}

fn send(signal: Signal, pid: u32) {
    kill(Pid::from_raw(i32::try_from(pid).unwrap()), signal).unwrap();
}

/// The end of the output: nobody has it any more. What came before it.
fn ends(stdout: BufReader<ChildStdout>) -> String {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(std::io::read_to_string(stdout)));
    let text = receiver.recv_timeout(DEADLINE);
    text.expect("somebody has the output").unwrap()
}

#[test]
fn a_server_is_listed_and_ended_with_its_proof() {
    let place = Place::new("listed");
    let (mut host, stdout) = place.start();
    let seen = place.json(&["ps", "--json"]);
    assert_eq!(seen["schema"], "mcp-contain/ps/1");
    let servers = seen["servers"].as_array().unwrap();
    let server = servers
        .iter()
        .find(|server| server["name"] == place.name.as_str());
    let server = server.unwrap_or_else(|| panic!("{seen:#}"));
    assert_eq!(
        (&server["host"]["state"], &server["host"]["is_wrapper"]),
        (&"alive".into(), &true.into())
    );
    assert_eq!(server["host"]["parent"]["pid"], std::process::id());
    assert!(server["guardian"].is_u64() && server["memory_bytes"].as_u64().unwrap() > 10_000);

    let table = String::from_utf8(place.call(&["ps"]).stdout).unwrap();
    assert!(
        table.starts_with("NAME") && table.contains(&place.name),
        "{table}"
    );
    assert!(!table.contains('\u{1b}'), "no colour in a file");

    let nobody = place.call(&["stop", "no-such-server"]);
    assert_eq!(nobody.status.code(), Some(1));
    let id = &server["id"].as_str().unwrap()[..8];
    let stopped = place.json(&["stop", id, "--grace", "100ms", "--json"]);
    let stopped = &stopped["servers"][0];
    assert_eq!(
        (&stopped["name"], &stopped["gone"]),
        (&place.name.as_str().into(), &true.into())
    );
    assert!(stopped["killed"].as_u64().unwrap() >= 1, "{stopped:#}");
    ends(stdout);
    assert!(!host.wait().unwrap().success());
    let again = place.call(&["stop", &place.name]);
    assert!(
        String::from_utf8(again.stderr)
            .unwrap()
            .contains("no server is called")
    );
}

#[test]
fn two_of_one_name_are_ended_only_if_both_are_meant() {
    let place = Place::new("twice");
    let (mut first, first_out) = place.start();
    let (mut second, second_out) = place.start();
    let refused = place.call(&["stop", &place.name]);
    let why = String::from_utf8(refused.stderr).unwrap();
    assert!(
        why.contains("2 servers are called") && why.contains("--all"),
        "{why}"
    );
    assert_eq!(refused.status.code(), Some(1));
    let stopped = place.json(&["stop", "--all", &place.name, "--grace", "0s", "--json"]);
    assert_eq!(stopped["servers"].as_array().unwrap().len(), 2);
    ends(first_out);
    ends(second_out);
    first.wait().unwrap();
    second.wait().unwrap();
}

#[test]
fn a_server_is_called_what_its_wrapper_was_told_to_call_it() {
    let place = Place::new("named");
    let given = format!(
        "my \u{1b}[2Jtimes-{}\nforged  host 1\t1",
        std::process::id()
    );
    let shown = given.replace(['\u{1b}', '\n', '\t'], "·");
    let (mut host, stdout) = place.start_with(&["--name", &given]);
    let seen = place.json(&["ps", "--json"]).to_string();
    assert!(seen.contains(&shown), "{seen}");
    let table = String::from_utf8(place.call(&["ps"]).stdout).unwrap();
    assert!(!table.contains("\nforged"), "{table}");
    let stopped = place.json(&["stop", &shown, "--grace", "0s", "--json"]);
    assert_eq!(stopped["servers"][0]["gone"], true, "{stopped:#}");
    ends(stdout);
    host.wait().unwrap();
}

#[test]
fn a_host_that_an_interpreter_runs_is_called_by_its_script() {
    let place = Place::new("hosted");
    let host = place.directory.path().join("my-host");
    let line = format!("'{PROGRAM}' '{}'\n:\n", place.script().display());
    fs::write(&host, line).unwrap();
    let mut command = place.command("sh");
    command
        .arg(&host)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut host = command.spawn().unwrap();
    let mut stdout = BufReader::new(host.stdout.take().unwrap());
    stdout.read_line(&mut String::new()).unwrap();
    let table = String::from_utf8(place.call(&["ps"]).stdout).unwrap();
    let stopped = place.call(&["stop", &place.name, "--grace", "0s"]);
    assert!(stopped.status.success());
    ends(stdout);
    host.wait().unwrap();
    let row = table
        .lines()
        .find(|line| line.contains(&place.name))
        .unwrap();
    assert!(row.contains(&format!("my-host {}", host.id())), "{table}");
}

#[test]
fn nobody_has_to_listen() {
    let place = Place::new("unheard");
    for words in [
        &["doctor"][..],
        &["doctor", "--json"],
        &["reap"],
        &["reap", "--dry-run"],
        &["ps"],
        &["stats"],
        &["man"],
    ] {
        let mut command = place.command(PROGRAM);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let status = command.args(words).stdout(writer).status().unwrap();
        assert!(status.success(), "{words:?}: {status}");
    }
}
