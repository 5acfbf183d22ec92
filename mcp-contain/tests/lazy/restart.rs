//! `restart`: another server for the same session.

use std::process::Output;

use serde_json::{Value, json};

use crate::session::{Place, Session};

/// A verb in the home of this place.
fn verb(place: &Place, words: &[&str]) -> Output {
    place.wrapped(words).output().unwrap()
}

fn restarted(place: &Place, words: &[&str]) -> Value {
    let output = verb(place, &[&["restart", "--json"], words].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(text["schema"], "mcp-contain/restart/1");
    text["servers"][0].clone()
}

fn name(of: &str) -> String {
    format!("{of}-{}", std::process::id())
}

#[test]
fn a_restarted_server_is_replaced_for_the_same_session() {
    for option in ["--restart", "--lazy"] {
        let mut place = Place::new();
        let name = name(option.trim_start_matches('-'));
        let mut session = place.session(&[option, "--name", &name]);
        session.open();
        place.alive.ready(1);
        session.call("tools/list", json!({}));
        let silent = session.ask("tools/call", json!({"name": "silent"}));
        place.alive.ready(1);
        place.heard();
        place.write("tools", r#"{"tools":[{"name":"two"}]}"#);
        let end = restarted(&place, &[&name]);
        assert_eq!((&end["gone"], &end["name"]), (&true.into(), &name.into()));
        let refused: Value = serde_json::from_str(&session.line()).unwrap();
        assert_eq!(refused["id"], silent, "{refused}");
        let why = refused["error"]["message"].as_str().unwrap();
        assert!(why.contains("restarted before it answered"), "{why}");
        // Another server is there, without a request.
        assert!(session.line().contains("tools/list_changed"));
        let heard = place.heard();
        let heard: Vec<_> = heard.iter().map(|line| method(line)).collect();
        let session_again = ["initialize", "notifications/initialized", "tools/list"];
        assert_eq!(heard, session_again, "{option}");
        session.work();
        place.alive.ready(1);
        assert!(session.end().success());
        place.alive.nobody_is_left();
    }
}

fn method(line: &str) -> String {
    let message: Value = serde_json::from_str(line).unwrap();
    message["method"].as_str().unwrap().to_owned()
}

#[test]
fn a_server_that_nothing_would_start_again_is_left_alone() {
    let mut place = Place::new();
    let name = name("plain");
    let mut session = place.session(&["--name", &name]);
    session.open();
    place.alive.ready(1);
    for (words, says) in [
        (&["restart", &name][..], "put `--restart` or `--lazy`"),
        (&["restart", "no-such-server"], "no server is called"),
    ] {
        let refused = verb(&place, words);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains(says) && said.lines().count() == 1, "{said}");
    }
    session.work();
    assert_eq!(place.heard().len(), 3, "one server");
    assert!(session.end().success());
    place.alive.nobody_is_left();
}

#[test]
fn a_deaf_server_is_killed_before_its_successor_starts() {
    let mut place = Place::new();
    let script = "trap '' TERM INT; printf x >&9; echo $$; while :; do read never <&8; done";
    let script = place.alive.script(script);
    let name = name("deaf");
    let words = ["--restart", "--name", &name, "sh", "-c", &script];
    let session = Session::start(&place, &words, crate::host::Streams::Sockets);
    let first = session.line();
    place.alive.ready(1);
    let end = restarted(&place, &["--grace", "100ms", &first]);
    assert_eq!((&end["gone"], &end["killed"]), (&true.into(), &1.into()));
    assert_ne!(session.line(), first);
    place.alive.ready(1);
    session.killed_by(nix::sys::signal::Signal::SIGTERM);
    place.alive.nobody_is_left();
}
