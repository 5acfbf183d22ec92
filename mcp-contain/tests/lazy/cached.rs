//! Requests that are answered without a server, and messages that a server is sent when it comes.

use std::process::Command;

use mcp_lifecycle_conformance::copies::script;
use serde_json::json;

use crate::host::Streams;
use crate::session::{Place, Session};

#[test]
fn the_cache_answers_and_the_first_other_request_starts_the_server() {
    let mut place = Place::new();
    place.learn();
    let mut session = place.session(&["--lazy"]);
    session.open();
    let list = session.call("tools/list", json!({"_meta": {"progressToken": 9}}));
    assert_eq!(list["result"], json!({"tools": [{"name": "one"}]}));
    assert_eq!(session.call("ping", json!({}))["result"], json!({}));
    assert_eq!(place.heard(), [""; 0], "there is no server");

    session.work();
    place.alive.ready(1);
    assert!(session.end().success());
    place.alive.nobody_is_left();
    let heard = place.heard();
    let method = |line: &String| {
        line.split('"')
            .nth(if line.contains("\"id\"") { 9 } else { 7 })
            .unwrap()
            .to_owned()
    };
    let methods: Vec<_> = heard.iter().map(method).collect();
    assert_eq!(
        methods,
        [
            "initialize",
            "notifications/initialized",
            "tools/call",
            "tools/list"
        ]
    );
    assert!(
        heard[3].contains("\"progressToken\":9"),
        "the host's own line: {}",
        heard[3]
    );
}

#[test]
fn another_host_gets_no_answer_of_this_one() {
    let mut place = Place::new();
    place.learn();
    let mut session = place.session(&["--lazy"]);
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"roots": {}}, "clientInfo": {"name": "h", "version": "1"}});
    session.call("initialize", params);
    place.alive.ready(1);
    assert_eq!(place.heard().len(), 1);
    assert!(session.end().success());
    place.alive.nobody_is_left();
}

#[test]
fn a_server_without_handshake_is_asked_at_once_and_ended_freely() {
    let mut place = Place::new();
    let meta = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "progressToken": 1}});
    let mut session = place.session(&["--lazy"]);
    session.call("server/discover", meta.clone());
    session.call("tools/list", meta.clone());
    assert!(session.end().success());
    place.alive.ready(1);
    place.alive.nobody_is_left();
    place.heard();

    let mut session = place.session(&["--lazy", "--idle", "300ms"]);
    session.call("server/discover", meta.clone());
    assert_eq!(
        session.call("tools/list", meta.clone())["result"]["tools"][0]["name"],
        "one"
    );
    assert_eq!(place.heard(), [""; 0], "there is no server");
    for _ in 0..2 {
        session.call("tools/call", meta.clone());
        place.alive.ready(1);
        place.alive.nobody_is_left();
        assert!(place.heard()[0].contains("tools/call"));
    }
    assert!(session.end().success());
}

#[test]
fn a_list_that_has_changed_is_told_and_is_right_the_next_time() {
    let mut place = Place::new();
    place.learn();
    place.write("tools", r#"{"tools":[{"name":"two"}]}"#);
    let mut session = place.session(&["--lazy"]);
    session.open();
    assert_eq!(
        session.call("tools/list", json!({}))["result"]["tools"][0]["name"],
        "one"
    );
    session.work();
    assert_eq!(
        session.line(),
        r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#
    );
    assert!(session.end().success());
    let mut session = place.session(&["--lazy"]);
    session.open();
    assert_eq!(
        session.call("tools/list", json!({}))["result"]["tools"][0]["name"],
        "two"
    );
    assert!(session.end().success());
    place.alive.ready(1);
    place.alive.nobody_is_left();
}

#[test]
fn what_a_server_says_of_itself_is_renewed_at_a_start() {
    let mut place = Place::new();
    let meta = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}});
    let discovered = |place: &mut Place| {
        let mut session = place.session(&["--lazy"]);
        let answer = session.call("server/discover", meta.clone());
        session.call("tools/call", meta.clone());
        place.alive.ready(1);
        assert!(session.end().success());
        place.alive.nobody_is_left();
        answer["result"]["supportedVersions"][0].clone()
    };
    assert_eq!(discovered(&mut place), "2026-07-28");
    place.write("discover", r#"{"supportedVersions":["2027-01-01"]}"#);
    assert_eq!(discovered(&mut place), "2026-07-28", "from the cache");
    assert_eq!(discovered(&mut place), "2027-01-01");
}

#[test]
fn the_path_of_the_login_shell_is_part_of_what_an_answer_is_found_by() {
    let mut place = Place::new();
    let shell = place.alive.file("shell");
    // What is started in a session with this at the end of its PATH.
    let started = |place: &mut Place, path: &str| {
        let text = format!("#!/bin/sh\nPATH=$PATH:{path} exec sh -c \"$2\"\n");
        script(&shell, &text, 0o700).unwrap();
        let mut command = place.command(&["--lazy", "--path", "login"]);
        let mut session = Session::of(command.env("SHELL", &shell), Streams::Pipes);
        session.open();
        assert!(session.end().success());
        place.alive.nobody_is_left();
        place.heard().len()
    };
    assert_ne!(started(&mut place, "/one"), 0);
    assert_eq!(started(&mut place, "/one"), 0, "from the cache");
    assert_ne!(started(&mut place, "/another"), 0);
}

#[test]
fn another_protocol_version_than_in_the_cache_ends_the_session() {
    let mut place = Place::new();
    place.learn();
    let answer = r#"{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"2"}}"#;
    place.write("initialize", answer);
    let mut session = place.session(&["--lazy"]);
    session.open();
    let refused = session.call("tools/call", json!({"name": "one"}));
    assert_eq!(refused["error"]["code"], -32603);
    let (status, said) = session.server.ended();
    assert_eq!(
        (status.code(), said.lines().count()),
        (Some(125), 1),
        "{said}"
    );
    place.alive.ready(1);
    place.alive.nobody_is_left();
    let mut session = place.session(&["--lazy"]);
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "h", "version": "1"}});
    assert_eq!(
        session.call("initialize", params)["result"]["protocolVersion"],
        "2025-06-18"
    );
    assert!(session.end().success());
}

#[test]
fn a_server_is_told_what_it_would_be_told_and_the_host_hears_what_it_says_byte_by_byte() {
    let mut place = Place::new();
    let mut session = place.session(&["--lazy", "--restart"]);
    session.open();
    place.alive.ready(1);
    place.heard();
    let strange = "  {\"x\" :1e0, \"method\":\"a\\u0062\",\t\"id\": \"\\u00e9\" } ";
    session.say(strange);
    assert_eq!(
        session.line(),
        "{\"id\":  \"\\u00e9\" , \"result\" : {\"content\":[]},\"jsonrpc\":\"2.0\" }"
    );
    assert_eq!(place.heard().last().unwrap(), strange);
    assert!(session.end().success());
    place.alive.nobody_is_left();
}

#[test]
fn a_logging_level_starts_no_server_that_has_said_that_it_logs() {
    let mut place = Place::new();
    let answer = r#"{"protocolVersion":"2025-11-25","capabilities":{"logging":{}},"serverInfo":{"name":"s","version":"1"}}"#;
    place.write("initialize", answer);
    place.learn();
    let mut session = place.session(&["--lazy"]);
    session.open();
    let level = session.call("logging/setLevel", json!({"level": "debug"}));
    assert_eq!(level["result"], json!({}));
    assert_eq!(place.heard(), [""; 0], "there is no server");
    session.work();
    place.alive.ready(1);
    let heard = place.heard();
    let at = |what: &str| heard.iter().position(|line| line.contains(what));
    assert!(
        at("logging/setLevel") < at("tools/call") && at("logging/setLevel").is_some(),
        "{heard:?}"
    );
    assert!(session.end().success());
    place.alive.nobody_is_left();
    // What no server may accept is for the server to refuse.
    let mut session = place.session(&["--lazy"]);
    session.open();
    session.call("logging/setLevel", json!({"level": "loud"}));
    place.alive.ready(1);
    assert!(session.end().success());
    place.alive.nobody_is_left();
}

#[test]
fn an_answer_over_the_limit_of_file_sizes_is_not_kept() {
    let place = Place::new();
    let name = "n".repeat(128 * 1024);
    place.write("tools", &json!({"tools": [{"name": name}]}).to_string());
    let relay = place.command(&["--lazy"]);
    let mut command = Command::new("sh");
    // 96 KiB: what else is written takes less.
    command.args(["-c", "ulimit -f 192; exec \"$@\"", "sh"]);
    command.arg(relay.get_program()).args(relay.get_args());
    for (name, value) in relay.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    let mut session = Session::of(&mut command, Streams::Pipes);
    session.open();
    for _ in 0..2 {
        let list = session.call("tools/list", json!({}));
        assert_eq!(list["result"]["tools"][0]["name"], name);
    }
    assert!(session.end().success());
}
