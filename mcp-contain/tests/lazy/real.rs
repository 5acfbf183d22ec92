//! Real servers through the clients of the SDKs: what a host sees is the same with and without a relay, with
//! an empty cache and with a full one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use crate::host::{DEADLINE, Streams, within};
use crate::session::{Place, Session};

fn installed(name: &str) -> PathBuf {
    let home = std::env::var_os("MCP_LIFECYCLE_TEST_TOOLS").map(PathBuf::from);
    let default = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/test-tools");
    let path = home.unwrap_or_else(default).join(name);
    assert!(
        path.exists(),
        "{} is missing; run tests/setup",
        path.display()
    );
    path
}

fn beside(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/lazy")
        .join(name)
}

/// The clients, as commands. The last one speaks 2026-07-28 to servers that do.
fn clients() -> [(&'static str, Vec<PathBuf>); 3] {
    [
        (
            "TypeScript",
            vec![
                "node".into(),
                beside("client.mjs"),
                installed("npm/node_modules"),
            ],
        ),
        (
            "Python",
            vec![installed("python/bin/python"), beside("client.py")],
        ),
        (
            "Python, both eras",
            vec![installed("python/bin/python"), beside("modern.py")],
        ),
    ]
}

/// The client's view of a server behind this command; `-` calls no tool.
fn seen(client: &[PathBuf], home: &Path, tool: &str, command: &[PathBuf]) -> Value {
    let mut host = Command::new(&client[0]);
    host.args(&client[1..])
        .arg(tool)
        .args(command)
        .env("HOME", home);
    host.stdin(Stdio::null()).stderr(Stdio::inherit());
    // An interpreter or two are started, which takes long beside other work.
    let output = within(4 * DEADLINE, move || host.output().expect("a client"));
    assert!(output.status.success(), "{command:?}: {}", output.status);
    serde_json::from_slice(&output.stdout).expect("what was seen")
}

fn relayed(server: &[PathBuf]) -> Vec<PathBuf> {
    behind("--lazy --idle 1m --restart", server)
}

/// The server behind this crate's program with these options.
fn behind(options: &str, server: &[PathBuf]) -> Vec<PathBuf> {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_mcp-contain"));
    let words: Vec<_> = options.split(' ').map(PathBuf::from).collect();
    [&[program], &words[..], server].concat()
}

fn the_same_is_seen(server: &[PathBuf], tool: &str) {
    for (name, client) in clients() {
        let home = tempfile::tempdir().unwrap();
        let bare = seen(&client, home.path(), tool, server);
        for time in ["an empty cache", "a full cache"] {
            let through = seen(&client, home.path(), tool, &relayed(server));
            assert_eq!(through, bare, "{name}, {time}");
        }
        if mcp_guardian::hardened::refusal(true, true).is_none() {
            let restricted = behind("--hardened --write default", server);
            let through = seen(&client, home.path(), tool, &restricted);
            assert_eq!(through, bare, "{name}, restricted");
        }
        // From the cache alone.
        let bare = seen(&client, home.path(), "-", server);
        let through = seen(&client, home.path(), "-", &relayed(server));
        assert_eq!(through, bare, "{name}, without a call");
    }
}

#[test]
fn server_everything_is_seen_as_without_a_relay() {
    let script =
        installed("npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let server = ["node".into(), script];
    the_same_is_seen(&server, r#"echo={"message":"hi"}"#);
    let tool = r#"trigger-long-running-operation={"duration":0.3,"steps":3}"#;
    for (name, client) in &clients()[..1] {
        let home = tempfile::tempdir().unwrap();
        for command in [server.to_vec(), relayed(&server)] {
            let seen = seen(client, home.path(), tool, &command);
            assert_eq!(
                seen["progress"], true,
                "{name}: progress comes through: {seen}"
            );
        }
    }
}

#[test]
fn server_time_is_seen_as_without_a_relay() {
    let server = [
        installed("python/bin/python"),
        "-m".into(),
        "mcp_server_time".into(),
    ];
    the_same_is_seen(
        &server,
        r#"convert_time={"source_timezone":"UTC","time":"12:00","target_timezone":"UTC"}"#,
    );
    // Whatever both clients have seen is of two eras.
    let home = tempfile::tempdir().unwrap();
    for ((name, client), era) in clients()[1..].iter().zip(["2025-11-25", "2026-07-28"]) {
        let seen = seen(client, home.path(), "-", &relayed(&server));
        assert!(seen.to_string().contains(era), "{name}: {seen}");
    }
}

#[test]
fn a_session_goes_on_with_another_server_of_npm_and_pypi() {
    let everything =
        installed("npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let python = installed("python/bin/python");
    let time = json!({"name": "get_current_time", "arguments": {"timezone": "UTC"}});
    let echo = json!({"name": "echo", "arguments": {"message": "hi"}});
    let everything = ["node", everything.to_str().unwrap(), "stdio"];
    let clock = [python.to_str().unwrap(), "-m", "mcp_server_time"];
    for (option, command, call) in [("--lazy", everything, echo), ("--restart", clock, time)] {
        let place = Place::new();
        let name = format!("real-{}", std::process::id());
        let source = place.alive.file("source");
        std::fs::write(&source, "").unwrap();
        let watch = ["--watch", source.to_str().unwrap()];
        // An interpreter on a busy machine ends slowly.
        let long = ["--grace", "60s"];
        let words = [&[option, "--name", &name], &watch[..], &long, &command].concat();
        let mut session = Session::start(&place, &words, Streams::Pipes);
        // An interpreter is started.
        session.patience = 4 * DEADLINE;
        session.open();
        let told = |session: &mut Session, method: &str, params: &Value| {
            let id = session.ask(method, params.clone());
            // Some servers log, and tell of lists that they have made.
            let lines = std::iter::repeat_with(|| session.line());
            let mut answers = lines.map(|line| serde_json::from_str::<Value>(&line).unwrap());
            let answer = answers.find(|answer| answer["id"] == id).unwrap();
            assert!(answer["result"].is_object(), "{answer}");
            answer["result"].clone()
        };
        let tools = told(&mut session, "tools/list", &json!({}));
        told(&mut session, "tools/call", &call);
        let mut ids = BTreeSet::new();
        for change in ["restart", "watch"] {
            let running = ids_of(&place);
            assert!(running.len() == 1 && ids.is_disjoint(&running), "{change}");
            ids.extend(running);
            if change == "restart" {
                let output = place.wrapped(&["restart", &name]).output().unwrap();
                let said = String::from_utf8_lossy(&output.stdout).into_owned();
                assert!(said.contains("nothing of it is left"), "{said}");
            } else {
                // One change, however long it takes.
                place.write("new", "changed");
                std::fs::rename(place.alive.file("new"), &source).unwrap();
                let end = Instant::now() + DEADLINE;
                while !ids.is_disjoint(&ids_of(&place)) {
                    assert!(Instant::now() < end, "it is not ended");
                }
            }
            assert_eq!(told(&mut session, "tools/list", &json!({})), tools);
            told(&mut session, "tools/call", &call);
        }
        session.server.stdin = None;
        assert!(session.server.ended().0.success());
    }
}

/// The servers of a place, by their IDs.
fn ids_of(place: &Place) -> BTreeSet<String> {
    let output = place.wrapped(&["ps", "--json"]).output().unwrap();
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    let servers = seen["servers"].as_array().unwrap();
    // Those of other tests, too, are this user's.
    let name = format!("real-{}", std::process::id());
    let own = servers.iter().filter(|server| server["name"] == *name);
    own.map(|server| server["id"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn claude_code_is_answered_from_the_cache_from_its_second_session_on() {
    let home = tempfile::tempdir().unwrap();
    let starts = home.path().join("starts");
    let script =
        installed("npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let line = format!(
        "echo x >>'{}'; exec node '{}'",
        starts.display(),
        script.display()
    );
    let args = ["--lazy", "sh", "-c", &line];
    let config = serde_json::json!({"mcpServers": {"s": {"command": env!("CARGO_BIN_EXE_mcp-contain"), "args": args}}});
    std::fs::write(home.path().join(".claude.json"), config.to_string()).unwrap();
    let list = || {
        // It would call home: there is no network.
        let mut host = Command::new("unshare");
        host.args(["-r", "--net"])
            .arg(installed("claude/node_modules/.bin/claude"))
            .args(["mcp", "list"]);
        host.env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap());
        host.env("HOME", home.path())
            .env("CLAUDE_CONFIG_DIR", home.path())
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .env("DISABLE_AUTOUPDATER", "1")
            .current_dir(home.path())
            .stdin(Stdio::null());
        let output = within(4 * DEADLINE, move || host.output().expect("claude"));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("Connected"), "{said}");
        std::fs::read_to_string(&starts).unwrap().lines().count()
    };
    assert_eq!(list(), 1);
    assert_eq!(list(), 1, "the second session has started a server");
}
