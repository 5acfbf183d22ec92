//! `--report`: two lines of JSON for each server, and what cannot be reported to.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, Stdio};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::host::{Alive, Server, Streams, in_time, wrapped};

const SCHEMA: &str = include_str!("../../../docs/contain-report.schema.json");

/// A pipe that a report goes to, by a path: its end is that of the guardian.
struct Report {
    reader: BufReader<PipeReader>,
    writer: Option<PipeWriter>,
}

impl Report {
    fn new() -> Self {
        let (reader, writer) = io::pipe().unwrap();
        Self {
            reader: BufReader::new(reader),
            writer: Some(writer),
        }
    }

    fn path(&self) -> String {
        let writer = self.writer.as_ref().unwrap().as_raw_fd();
        format!("/proc/{}/fd/{writer}", std::process::id())
    }

    fn started(&mut self) -> Value {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        self.writer = None;
        parsed(&line).remove(0)
    }

    /// The rest of the lines, up to the end of the guardian.
    fn rest(mut self) -> Vec<Value> {
        self.writer = None;
        let text = in_time(move || io::read_to_string(self.reader).unwrap());
        parsed(&text)
    }
}

#[track_caller]
fn parsed(text: &str) -> Vec<Value> {
    assert!(text.is_empty() || text.ends_with('\n'), "{text}");
    let schema = serde_json::from_str(SCHEMA).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let lines: Vec<Value> = lines.collect();
    for line in &lines {
        let known = check(&schema, line).unwrap_or_else(|why| panic!("{why}: {line:#}"));
        for key in line.as_object().unwrap().keys() {
            assert!(known.contains(key), "{key} is not in the schema");
        }
    }
    lines
}

/// Checks a value by the part of JSON Schema that is used here, and returns the keys that are known of it.
fn check(schema: &Value, value: &Value) -> Result<Vec<String>, String> {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(it) if it.is_u64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let list = |key: &str| match &schema[key] {
        Value::Array(all) => all.clone(),
        Value::Null => Vec::new(),
        one => vec![one.clone()],
    };
    let refuse = |what: &str| Err(format!("{what} of {schema} is violated by {value}"));
    let mut types = list("type");
    if types.contains(&"number".into()) {
        types.push("integer".into());
    }
    if !types.is_empty() && !types.contains(&kind.into()) {
        return refuse("type");
    }
    let values = [list("enum"), list("const")].concat();
    if !values.is_empty() && !values.contains(value) {
        return refuse("enum or const");
    }
    if list("required")
        .iter()
        .any(|key| value.get(key.as_str().unwrap()).is_none())
    {
        return refuse("required");
    }
    let mut known = Vec::new();
    for (key, part) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(value) = value.get(key) {
            check(part, value)?;
        }
        known.push(key.clone());
    }
    for item in value.as_array().into_iter().flatten() {
        check(&schema["items"], item)?;
    }
    let choices = list("oneOf");
    let mut fit = choices.iter().filter_map(|part| check(part, value).ok());
    match (choices.len(), fit.next(), fit.next()) {
        (0, ..) => {}
        (_, Some(more), None) => known.extend(more),
        _ => return refuse("oneOf"),
    }
    Ok(known)
}

fn start(alive: &Alive, options: &[&str], script: &str) -> Server {
    let script = alive.script(script);
    let words = [options, &["sh", "-c", &script]].concat();
    Server::start(&mut wrapped(&words), Streams::Pipes)
}

/// Ignores all but SIGKILL, with a helper in a session of its own.
const STUBBORN: &str = "trap '' TERM INT; S='printf . >&9; while :; do read never <&8; done'; setsid sh -c \"$S\" & eval \"$S\"";
const POLITE: &str = "trap 'exit 4' TERM; printf . >&9; while :; do read never <&8; done";

#[test]
fn each_end_is_reported_with_its_means_and_its_proof() {
    let itself = "printf . >&9; read line; exit 3";
    for (script, parts, how, means) in [
        (itself, 1, "itself", [false, false]),
        (POLITE, 1, "asked", [true, false]),
        (STUBBORN, 2, "killed", [true, true]),
    ] {
        for host_gone in [false, true] {
            let (mut alive, mut report) = (Alive::new(), Report::new());
            let path = report.path();
            let options = [
                "--grace",
                "300ms",
                "--report",
                &path,
                "--name",
                "a \"name\"",
            ];
            let mut server = start(&alive, &options, script);
            alive.ready(parts);
            let started = report.started();
            assert_eq!(started["event"], "started", "{started:#}");
            let leader = started["leader"].as_i64().unwrap();
            kill(Pid::from_raw(leader.try_into().unwrap()), None).expect("it lives");
            // What ends by itself has read the end of its input before.
            if host_gone && how != "itself" {
                server.signal(Signal::SIGKILL);
            }
            server.stdin = None;
            let [ended] = &report.rest()[..] else {
                panic!("one line for the end")
            };
            let same = ["id", "name", "containment", "schema"];
            assert!(
                same.iter().all(|key| started[key] == ended[key]),
                "{ended:#}"
            );
            assert_eq!(
                (&ended["how"], &ended["name"]),
                (&how.into(), &"a \"name\"".into())
            );
            assert_eq!(
                [&ended["asked"], &ended["forced"]],
                means.map(Value::from).each_ref()
            );
            assert_eq!(
                ended["host_gone"],
                host_gone && how != "itself",
                "{ended:#}"
            );
            assert_eq!(ended["swept"], parts - 1, "{ended:#}");
            assert_eq!(ended["names"].as_array().unwrap().len(), parts - 1);
            let mut evidence = vec!["reaped"];
            if ended["containment"]["mechanism"] == "guardian and cgroup" {
                evidence.push("cgroup_empty");
            }
            assert_eq!(ended["evidence"], json!(evidence));
            assert!(
                !alive.somebody_is_left(),
                "it is written after the last of them"
            );
            server.ended();
        }
    }
}

#[test]
fn a_file_gets_the_lines_of_every_server_at_its_end() {
    let alive = Alive::new();
    let file = alive.file("reports");
    let log = alive.file("log");
    let options = [
        "--report",
        file.to_str().unwrap(),
        "--log",
        log.to_str().unwrap(),
    ];
    for word in ["first", "second"] {
        let script = format!("echo {word} said >&2; exit 3");
        let words = [&options[..], &["sh", "-c", &script]].concat();
        let (status, said) = Server::start(&mut wrapped(&words), Streams::Pipes).ended();
        assert_eq!((status.code(), &*said), (Some(3), ""));
    }
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let lines = parsed(&fs::read_to_string(&file).unwrap());
    let events: Vec<_> = lines.iter().map(|line| &line["event"]).collect();
    assert_eq!(events, ["started", "ended", "started", "ended"]);
    assert_eq!(
        [&lines[1]["code"], &lines[1]["stderr"]],
        [&json!(3), &json!("first said\n")]
    );
    assert_eq!(
        lines[3]["stderr"], "second said\n",
        "not what others have said before"
    );
}

/// Gives the wrapper this descriptor as its number 3.
fn with_third(words: &[&str], fd: RawFd) -> Command {
    let mut command = wrapped(words);
    let place = move || {
        // SAFETY: it takes numbers only.
        let placed = unsafe { libc::dup2(fd, 3) };
        nix::errno::Errno::result(placed).map(drop)?;
        Ok(())
    };
    // SAFETY: it calls `dup2` alone, on a descriptor that the test keeps.
    unsafe { command.pre_exec(place) };
    command
}

#[test]
fn a_descriptor_gets_the_lines_and_the_server_does_not_get_the_descriptor() {
    let (pipe, its_pipe) = io::pipe().unwrap();
    let (socket, its_socket) = UnixStream::pair().unwrap();
    let pairs: [(OwnedFd, OwnedFd); 2] = [
        (pipe.into(), its_pipe.into()),
        (socket.into(), its_socket.into()),
    ];
    for (ours, theirs) in pairs {
        let list = ["--report", "3", "sh", "-c", "exec ls /proc/self/fd >&2"];
        let mut command = with_third(&list, theirs.as_raw_fd());
        let server = Server::start(&mut command, Streams::Pipes);
        drop(theirs);
        let (status, said) = server.ended();
        assert!(status.success(), "{said}");
        // The last one is the directory that is listed.
        assert_eq!(said, "0\n1\n2\n3\n");
        let text = in_time(move || io::read_to_string(File::from(ours)).unwrap());
        assert_eq!(parsed(&text).len(), 2);
    }
}

#[test]
fn a_reader_that_does_not_read_holds_up_no_end() {
    let (_pipe, its_pipe) = io::pipe().unwrap();
    let (_socket, its_socket) = UnixStream::pair().unwrap();
    for full in [OwnedFd::from(its_pipe), its_socket.into()] {
        fcntl(&full, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
        let mut file = File::from(full.try_clone().unwrap());
        while file.write(&[b'x'; 512]).is_ok() {}
        while file.write(b"x").is_ok() {}
        fcntl(&full, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
        let words = ["--report", "3", "sh", "-c", "exit 6"];
        let mut command = with_third(&words, full.as_raw_fd());
        let (status, said) = Server::start(&mut command, Streams::Pipes).ended();
        assert_eq!((status.code(), &*said), (Some(6), ""));
        let flags = fcntl(full.as_fd(), FcntlArg::F_GETFL).unwrap();
        assert_eq!(flags & libc::O_NONBLOCK, 0, "the host's stays as it is");
    }
}

#[test]
fn a_report_that_cannot_be_one_is_refused() {
    let alive = Alive::new();
    let unread = alive.file("unread");
    nix::unistd::mkfifo(&unread, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let missing = alive.file("missing/file");
    for (to, why) in [
        ("99", "Bad file descriptor"),
        ("1", "the server has it"),
        (unread.to_str().unwrap(), "nothing reads it"),
        (missing.to_str().unwrap(), "No such file"),
        ("/", "Is a directory"),
    ] {
        let command = &mut wrapped(&["--report", to, "sh", "-c", "exit 3"]);
        let (status, said) = Server::start(command, Streams::Pipes).ended();
        assert_eq!(
            (status.code(), said.lines().count()),
            (Some(125), 1),
            "{said}"
        );
        assert!(said.contains(to) && said.contains(why), "{said}");
    }
}

#[test]
fn what_was_not_started_has_no_line() {
    let report = Report::new();
    let command = &mut wrapped(&["--report", &report.path(), "no-such-program"]);
    let (status, _) = Server::start(command, Streams::Pipes).ended();
    assert_eq!((status.code(), report.rest()), (Some(127), Vec::new()));
}

#[test]
fn without_a_guardian_the_report_ends_without_a_proof() {
    let (mut alive, mut report) = (Alive::new(), Report::new());
    let server = start(&alive, &["--report", &report.path()], POLITE);
    alive.ready(1);
    let guardian = report.started()["guardian"].as_i64().unwrap();
    kill(Pid::from_raw(guardian.try_into().unwrap()), Signal::SIGKILL).unwrap();
    assert_eq!(report.rest(), Vec::<Value>::new());
    assert_eq!(server.ended().0.code(), Some(125));
}

#[test]
fn a_host_that_is_killed_has_left_the_report_of_its_server() {
    let (mut alive, mut report) = (Alive::new(), Report::new());
    let script = alive.script(POLITE);
    let mut host = Command::new("sh");
    host.args([
        "-c",
        "\"$@\" & wait",
        "sh",
        env!("CARGO_BIN_EXE_mcp-contain"),
    ]);
    host.args(["--grace", "40s", "--report", &report.path()]);
    let mut host = host
        .args(["sh", "-c", &script])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    alive.ready(1);
    report.started();
    host.kill().unwrap();
    let ended = report.rest().remove(0);
    assert_eq!(
        (&ended["how"], &ended["code"]),
        (&"asked".into(), &4.into()),
        "{ended:#}"
    );
    assert_eq!(host.wait().unwrap().signal(), Some(9));
}

#[test]
fn what_is_kept_does_not_hold_the_report() {
    let report = Report::new();
    let words = ["--keep", "sleep", "--report", &report.path()];
    let script = "sleep 1000 >/dev/null 2>&1 & echo $!";
    let mut command = wrapped(&[&words[..], &["sh", "-c", script]].concat());
    let mut server = Server::start(&mut command, Streams::Pipes);
    let mut pid = String::new();
    server.stdout.read_to_string(&mut pid).unwrap();
    let lines = report.rest();
    kill(Pid::from_raw(pid.trim().parse().unwrap()), Signal::SIGKILL).unwrap();
    assert_eq!(lines.len(), 2);
    assert!(server.ended().0.success());
}

#[test]
fn a_relay_reports_each_of_its_servers() {
    let (pipe, its_pipe) = io::pipe().unwrap();
    let words = [
        "--restart",
        "--report",
        "3",
        "sh",
        "-c",
        "read line; exit 5",
    ];
    let mut command = with_third(&words, its_pipe.as_raw_fd());
    let mut server = Server::start(&mut command, Streams::Pipes);
    drop(its_pipe);
    let request = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
    server.stdin.as_mut().unwrap().write_all(request).unwrap();
    let mut lines = BufReader::new(pipe).lines();
    let mut line = || lines.next().map(|line| line.unwrap() + "\n");
    for event in ["started", "ended"] {
        assert_eq!(parsed(&line().unwrap())[0]["event"], event);
    }
    drop(server.stdin.take());
    server.ended();
}
