//! `ps`, `stop`, `reap` and `doctor`, on real servers.

#![cfg(target_os = "linux")]

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

#[path = "operate/companion.rs"]
mod companion;
#[path = "operate/foreign.rs"]
mod foreign;
#[path = "operate/stats.rs"]
mod stats;
#[path = "operate/terminal.rs"]
mod terminal;
#[path = "operate/unmarked.rs"]
mod unmarked;
#[path = "operate/unproven.rs"]
mod unproven;

const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-contain");

/// The time after which a step that never takes long has failed.
const DEADLINE: Duration = Duration::from_secs(30);

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
        fs::write(&script, deaf).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
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
        let command = command
            .args(options)
            .arg(self.script())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        becomes_the_shim(&child);
        (child, stdout)
    }
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
    let given = format!("my \u{1b}[2Jtimes-{}", std::process::id());
    let shown = given.replace('\u{1b}', "·");
    let (mut host, stdout) = place.start_with(&["--name", &given]);
    let seen = place.json(&["ps", "--json"]).to_string();
    assert!(seen.contains(&shown), "{seen}");
    let stopped = place.json(&["stop", &shown, "--grace", "0s", "--json"]);
    assert_eq!(stopped["servers"][0]["gone"], true, "{stopped:#}");
    ends(stdout);
    host.wait().unwrap();
}

#[test]
fn a_living_hosts_server_is_no_orphan() {
    let place = Place::new("spared");
    let (mut host, stdout) = place.start();
    let shown = place.json(&["reap", "--dry-run", "--json"]);
    assert_eq!(shown["orphans"].as_array().unwrap().len(), 0, "{shown:#}");
    let reaped = place.json(&["reap", "--json"]);
    assert_eq!(
        (&reaped["schema"], &reaped["ended"]),
        (&"mcp-contain/reap/1".into(), &Value::Array(Vec::new()))
    );
    let seen = place.json(&["ps", "--json"]).to_string();
    assert!(seen.contains(&place.name), "it runs");
    drop(host.stdin.take());
    ends(stdout);
    host.wait().unwrap();
}

#[test]
fn what_a_wrapper_left_that_was_killed_with_its_guardian_is_shown_and_ended() {
    let place = Place::new("orphan");
    // The server's own process ends with its guardian; what it has started does not.
    let helped = "#!/bin/sh\nsleep 60 &\necho ready\nread line\n";
    fs::write(place.script(), helped).unwrap();
    let (mut host, stdout) = place.start();
    let seen = place.json(&["ps", "--json"]);
    let servers = seen["servers"].as_array().unwrap();
    let server = servers
        .iter()
        .find(|server| server["name"] == place.name.as_str())
        .unwrap();
    let guardian = u32::try_from(server["guardian"].as_u64().unwrap()).unwrap();
    // A stopped one cannot do the work of the other.
    send(Signal::SIGSTOP, host.id());
    send(Signal::SIGKILL, guardian);
    send(Signal::SIGKILL, host.id());
    host.wait().unwrap();
    // The guardian is not ours to wait for; until it has gone, nobody is proven dead.
    let end = Instant::now() + DEADLINE;
    let shown = loop {
        let shown = place.json(&["reap", "--dry-run", "--json"]);
        if shown["orphans"][0]["id"] == server["id"] {
            break shown;
        }
        assert!(Instant::now() < end, "{shown:#}");
    };
    assert_eq!(shown["orphans"][0]["host"]["state"], "dead");
    let doctor = String::from_utf8(place.call(&["doctor"]).stdout).unwrap();
    assert!(doctor.contains("`mcp-contain reap` ends them"), "{doctor}");
    let reaped = place.json(&["reap", "--json"]);
    assert!(
        !reaped["ended"].as_array().unwrap().is_empty(),
        "{reaped:#}"
    );
    ends(stdout);
}

#[test]
fn the_doctor_names_what_a_host_without_containment_has_left() {
    let place = Place::new("left");
    let before = place.json(&["doctor", "--json"]);
    assert!(!before.to_string().contains(&place.name));
    // A host that starts a server without the wrapper and dies.
    let line = format!("{} <&3 & echo $!", place.script().display());
    let mut host = place.command("sh");
    host.args(["-c", &format!("exec 3<&0; {line}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut host = host.spawn().unwrap();
    let mut stdout = BufReader::new(host.stdout.take().unwrap());
    let mut said = String::new();
    for _ in 0..2 {
        stdout.read_line(&mut said).unwrap();
    }
    let pid = said
        .lines()
        .find_map(|line| line.parse::<u32>().ok())
        .unwrap();
    let held = place.json(&["doctor", "--json"]);
    assert!(
        !held.to_string().contains(&place.name),
        "its input is open: somebody uses it"
    );
    drop(host.stdin.take());
    host.wait().unwrap();
    let seen = place.json(&["doctor", "--json"]);
    let text = String::from_utf8(place.call(&["doctor"]).stdout).unwrap();
    let parent = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let parent = parent
        .rsplit(')')
        .next()
        .unwrap()
        .split(' ')
        .nth(2)
        .unwrap()
        .to_owned();
    send(Signal::SIGKILL, pid);
    ends(stdout);
    if parent != "1" {
        eprintln!("SKIPPED: orphans are adopted by process {parent} here");
        return;
    }
    let unclaimed = seen["left"]["unclaimed"].as_array().unwrap();
    assert!(
        unclaimed
            .iter()
            .any(|it| it["name"] == place.name.as_str() && it["process"]["pid"] == pid),
        "{seen:#}"
    );
    let first = text.lines().next().unwrap();
    assert!(
        first.contains("of MCP servers whose host is gone still run and hold"),
        "{first}"
    );
    assert!(text.contains("nothing says so"), "{text}");
}

#[test]
fn the_doctor_says_which_hosts_are_wrapped() {
    let place = Place::new("files");
    let file = place.directory.path().join(".cursor/mcp.json");
    fs::create_dir(file.parent().unwrap()).unwrap();
    let text = format!(
        "{{\"mcpServers\": {{\"a\": {{\"command\": \"{PROGRAM}\", \"args\": [\"sh\"]}}, \"b\": {{\"command\": \"no-such-program\"}}, \
         \"c\": {{\"url\": \"https://example.com\"}}, \"d\": {{\"command\": \"TOKEN=SECRET npx thing\"}}}}}}"
    );
    fs::write(&file, text).unwrap();
    let text = String::from_utf8(place.call(&["doctor"]).stdout).unwrap();
    assert!(text.contains("1 of 3 servers wrapped"), "{text}");
    assert!(
        text.contains("not wrapped: mcpServers › b, mcpServers › d"),
        "{text}"
    );
    assert!(
        text.contains("may not be found with the PATH that Cursor has: no-such-program"),
        "{text}"
    );
    let seen = place.json(&["doctor", "--json"]);
    assert_eq!(seen["schema"], "mcp-contain/doctor/1");
    assert!(!format!("{text}{seen}").contains("SECRET"), "{seen:#}");
    assert_eq!(
        (
            &seen["files"][0]["servers"][0]["program"],
            &seen["files"][0]["servers"][0]["found"]
        ),
        (&"sh".into(), &true.into())
    );
    assert!(seen["containment"]["mechanism"].is_string());
}

#[test]
fn the_doctor_leaves_nothing() {
    let place = Place::new("looked");
    place.json(&["doctor", "--json"]);
    assert!(!place.directory.path().join("state").exists());
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
