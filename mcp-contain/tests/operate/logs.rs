//! `logs`, of real servers.

use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Stdio};

use mcp_lifecycle_conformance::copies;
use serde_json::json;

use crate::{Place, ends};

/// It logs its start, and each line that it gets.
const SERVER: &str = "#!/bin/sh\nprintf 'to the log\\033[2J\\n' >&2\necho ready\nwhile read line; do echo \"$line\" >&2; done\n";

/// A place with a server that writes to its standard error.
fn place(name: &str) -> Place {
    let place = Place::new(name);
    fs::remove_file(place.script()).unwrap();
    copies::script(&place.script(), SERVER, 0o755).unwrap();
    place
}

/// The output of `logs`, and what it has to say.
fn logs(place: &Place, server: &str) -> (Option<i32>, String, String) {
    let output = place.call(&["logs", server]);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn a_log_is_printed_with_the_one_that_was_moved_aside() {
    for option in ["--restart", "--grace=3s"] {
        let place = place("logged");
        let long = "x".repeat((10 << 20) + 1);
        fs::write(place.directory.path().join("server.log"), &long).unwrap();
        let mut command = place.command(&place.program);
        let words = ["--log", "server.log", "--name", "=long", option];
        command.args(words).arg(place.script());
        let (mut host, stdout) = crate::started(&mut command);
        let (code, printed, said) = logs(&place, "=long");
        assert_eq!((code, said.as_str()), (Some(0), ""));
        assert!(printed == long + "to the log·[2J\n", "{option}");
        let files = place.json(&["logs", "=long", "--json"]);
        let log = place.directory.path().join("server.log");
        let aside = place.directory.path().join("server.log.1");
        let schema = "mcp-contain/logs/1";
        let expected = json!({"schema": schema, "files": [aside, log]});
        assert_eq!(files, expected);
        drop(host.stdin.take());
        ends(stdout);
        assert!(host.wait().unwrap().success());
        let (code, _, said) = logs(&place, "=long");
        assert_eq!(code, Some(1));
        assert!(said.contains("no server is called"), "{said}");
    }
}

#[test]
fn a_server_without_a_log_is_told_the_option() {
    let place = place("unlogged");
    let (mut host, stdout) = place.start();
    let (code, printed, said) = logs(&place, &place.name);
    assert_eq!((code, printed.as_str()), (Some(1), ""));
    assert!(said.contains("put `--log FILE`"), "{said}");
    drop(host.stdin.take());
    ends(stdout);
    host.wait().unwrap();
}

#[test]
fn the_logs_of_servers_with_one_name_are_printed_once() {
    let place = place("shared");
    let all = ["one.log", "one.log", "other.log"];
    let all = all.map(|log| place.start_with(&["--log", log]));
    let (code, printed, _) = logs(&place, &place.name);
    assert_eq!((code, printed.lines().count()), (Some(0), 3), "{printed}");
    for (mut host, stdout) in all {
        drop(host.stdin.take());
        ends(stdout);
        host.wait().unwrap();
    }
}

/// A server with a log, and what follows it.
struct Followed {
    host: Child,
    stdout: BufReader<ChildStdout>,
    follower: Child,
    lines: BufReader<ChildStdout>,
}

impl Followed {
    fn new(place: &Place, name: &str, option: &str) -> Self {
        let mut command = place.command(&place.program);
        let words = ["--log", "server.log", "--name", name, option];
        command.args(words).arg(place.script());
        let (host, stdout) = crate::started(&mut command);
        let mut follower = place.command(crate::PROGRAM);
        follower.args(["logs", name, "--follow"]);
        let mut follower = follower.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(follower.stdout.take().unwrap());
        Self {
            host,
            stdout,
            follower,
            lines,
        }
    }

    fn write(&mut self, line: &str) {
        let input = self.host.stdin.as_mut().unwrap();
        writeln!(input, "{line}").unwrap();
    }

    #[track_caller]
    fn shows(&mut self, expected: &str) {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        let shown = line.get(..80).unwrap_or(&line);
        assert!(line.trim_end() == expected, "{shown}");
    }

    fn end(mut self) {
        drop(self.host.stdin.take());
        ends(self.stdout);
        assert!(self.host.wait().unwrap().success());
        // It has shown everything before.
        ends(self.lines);
        assert!(self.follower.wait().unwrap().success());
    }
}

/// Makes the log long, so that the next start moves it aside.
fn lengthen(place: &Place) -> String {
    let long = "x".repeat((10 << 20) + 1);
    let log = place.directory.path().join("server.log");
    let mut log = OpenOptions::new().append(true).open(log).unwrap();
    log.write_all(format!("{long}\n").as_bytes()).unwrap();
    long
}

#[test]
fn a_log_is_followed_until_its_server_ends() {
    let place = place("followed");
    let mut followed = Followed::new(&place, "=followed", "--grace=60s");
    followed.shows("to the log·[2J");
    followed.write("one");
    followed.shows("one");
    let long = lengthen(&place);
    followed.shows(&long);
    // Another server moves it aside, and goes on.
    let mut other = Followed::new(&place, "=other", "--grace=60s");
    followed.shows("to the log·[2J");
    for line in ["two", "three"] {
        followed.write(line);
        followed.shows(line);
        other.write(line);
        followed.shows(line);
    }
    followed.end();
    other.write("four");
    for line in ["to the log·[2J", "one", &long, "two", "three"] {
        other.shows(line);
    }
    for line in ["to the log·[2J", "two", "three", "four"] {
        other.shows(line);
    }
    other.end();
}

#[test]
fn a_log_is_followed_over_a_restart() {
    let place = place("again");
    let mut followed = Followed::new(&place, "=again", "--restart");
    followed.shows("to the log·[2J");
    let long = lengthen(&place);
    followed.shows(&long);
    let restarted = place.call(&["restart", "=again"]);
    assert!(restarted.status.success());
    followed.shows("to the log·[2J");
    assert!(place.directory.path().join("server.log.1").exists());
    followed.end();
}

#[test]
fn a_log_that_was_cut_is_followed_from_its_beginning() {
    let place = place("cut");
    let mut followed = Followed::new(&place, "=cut", "--grace=60s");
    followed.shows("to the log·[2J");
    followed.write("one");
    followed.shows("one");
    let log = place.directory.path().join("server.log");
    let log = OpenOptions::new().write(true).open(log).unwrap();
    log.set_len(0).unwrap();
    followed.write("two");
    followed.shows("two");
    followed.end();
}

#[test]
fn a_follower_ends_with_its_reader() {
    let place = place("unread");
    let mut followed = Followed::new(&place, "=unread", "--grace=60s");
    followed.shows("to the log·[2J");
    let mut stderr = place.command(crate::PROGRAM);
    stderr.args(["logs", "=unread", "--follow"]);
    stderr.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut unread = stderr.spawn().unwrap();
    drop(unread.stdout.take());
    followed.write("one");
    let mut said = String::new();
    let mut stderr = BufReader::new(unread.stderr.take().unwrap());
    stderr.read_line(&mut said).unwrap();
    assert_eq!(said, "");
    assert!(unread.wait().unwrap().success());
    followed.shows("one");
    followed.end();
}
