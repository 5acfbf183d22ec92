//! Long lines, and a server that ends in the middle of one.

use std::fs;
use std::io::Write as _;
use std::process::Command;
use std::thread;

use serde_json::{Value, json};

use crate::host::{Alive, Streams, comes_to_rest, wrapped};
use crate::session::Session;

/// The length of a long line.
const LONG: usize = 17 << 20;

/// What every server but the first does: says that it runs, writes down what it gets, and answers requests.
const NEXT: &str = r#"printf x >&9
while IFS= read -r line; do
  printf '%s\n' "$line" >>heard
  id=${line#*'"id":'}; id=${id%%[,\}]*}
  printf '{"jsonrpc":"2.0","id":%s,"result":{}}\n' "$id"
done"#;

/// A relay whose first server does this.
fn command(alive: &Alive, first: &str) -> Command {
    let script = format!("if [ ! -e first ]; then : >first; {first}; exit 0; fi\n{NEXT}");
    let mut command = wrapped(&["--restart", "sh", "-c", &alive.script(&script)]);
    command.env("HOME", alive.file(""));
    command
}

/// Asks until a server answers: the relay may have given the first request to the one that was about to end.
fn is_served(session: &mut Session) {
    loop {
        session.ask("tools/call", json!({}));
        let answer: Value = serde_json::from_str(&session.line()).unwrap();
        if answer["result"].is_object() {
            return;
        }
        assert!(answer["error"].is_object(), "{answer}");
    }
}

#[test]
fn a_line_over_64_mib_ends_the_relay_and_its_server() {
    const BEYOND: usize = 65 << 20;
    for (of, first) in [
        ("host", "printf x >&9; cat >/dev/null".to_owned()),
        (
            "server",
            format!("printf x >&9; head -c {BEYOND} /dev/zero; cat >/dev/null"),
        ),
    ] {
        let mut alive = Alive::new();
        let session = Session::of(&mut command(&alive, &first), Streams::Pipes);
        let mut stdin = session.server.stdin.as_ref().unwrap().try_clone().unwrap();
        alive.ready(1);
        let writer =
            (of == "host").then(|| thread::spawn(move || stdin.write_all(&[b'x'; BEYOND])));
        let (status, said) = session.server.ended();
        let why = format!("a line of the {of} is longer than 64 MiB\n");
        assert!(said.ends_with(&why) && said.lines().count() == 1, "{said}");
        assert_eq!(status.code(), Some(125));
        alive.nobody_is_left();
        // Its pipe has no reader any more, or all of it was read.
        let _ = writer.map(thread::JoinHandle::join);
    }
}

#[test]
fn a_long_line_that_a_server_has_not_ended_is_not_continued_by_the_next() {
    let mut alive = Alive::new();
    let first =
        format!("head -c {LONG} /dev/zero; printf x >&9; while [ ! -e go ]; do sleep 0.1; done");
    let mut session = Session::of(&mut command(&alive, &first), Streams::Pipes);
    alive.ready(1);
    // All of it was passed on, but for the end that there is not.
    comes_to_rest(session.server.child.id());
    fs::write(alive.file("go"), "").unwrap();
    alive.nobody_is_left();
    // Its end comes with the end of its server.
    let cut = session.line();
    assert_eq!(cut.len(), LONG);
    is_served(&mut session);
    assert!(session.end().success());
    alive.nobody_is_left();
}
