//! `logs`, of real servers.

use std::fs;

use mcp_lifecycle_conformance::copies;
use serde_json::json;

use crate::{Place, ends};

const SERVER: &str =
    "#!/bin/sh\nprintf 'to the log\\033[2J\\n' >&2\necho ready\nwhile read line; do :; done\n";

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
