//! Real servers through the clients of the SDKs: what a host sees is the same with and without a relay, with
//! an empty cache and with a full one.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::host::{DEADLINE, within};

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
