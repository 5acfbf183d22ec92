//! Files as users have them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::*;
use crate::fleet::options::{FleetServer, Sharing};
use crate::launch::containment::{Containment, Reach};
use crate::launch::context::LaunchContext;
use crate::launch::error::{LaunchError, ReapError};
use crate::launch::launcher::{LaunchedServer, ServerLauncher, TerminationSemantics};
use crate::launch::remnant::ReapReport;
use crate::launch::spec::ServerSpec;

/// A launcher that is only a name.
#[derive(Debug)]
struct Named(&'static str);

#[async_trait]
impl ServerLauncher for Named {
    fn name(&self) -> &str {
        self.0
    }
    fn semantics(&self) -> TerminationSemantics {
        TerminationSemantics::new(Containment::new("none", Reach::Nothing))
    }
    async fn launch(
        &self,
        _: &ServerSpec,
        _: &LaunchContext,
    ) -> Result<LaunchedServer, LaunchError> {
        unreachable!("nothing is launched here")
    }
    async fn reap_orphans(&self) -> Result<ReapReport, ReapError> {
        Ok(ReapReport::new())
    }
}

fn read(text: &str, format: Format) -> Result<ServerSet, ConfigError> {
    let launchers =
        LauncherRegistry::new(Arc::new(Named("local"))).launcher(Arc::new(Named("docker")));
    let lookup = |name: &str| (name == "TOKEN").then(|| "hunter2".to_owned());
    ConfigReader::new(&launchers)
        .variables(lookup)
        .read_str(text, format)
}

fn json(text: &str) -> Result<ServerSet, ConfigError> {
    read(text, Format::Json)
}

fn names(set: &ServerSet) -> Vec<&str> {
    set.servers.iter().map(FleetServer::name).collect()
}

#[test]
fn claude_desktop_and_cursor() {
    let set = json(
        r#"{ "globalShortcut": "x", "mcpServers": {
            "files": { "command": "npx", "args": ["-y", "server-files", "/tmp"],
                       "env": { "KEY": "${TOKEN}" }, "autoApprove": ["*"] },
            "far": { "type": "http", "url": "https://example.com/mcp", "headers": {} },
            "off": { "command": "x", "disabled": true } } }"#,
    )
    .unwrap();
    assert_eq!(names(&set), ["files"]);
    let spec = set.servers[0].config.spec();
    assert_eq!(spec.args().len(), 3);
    assert_eq!(spec.env().literals().next().unwrap().1, "hunter2");
    let skipped: Vec<_> = set.skipped.iter().map(ToString::to_string).collect();
    assert_eq!(
        skipped,
        [
            "`far` is reached by URL and has nothing to launch",
            "`off` is disabled"
        ]
    );
    assert!(!format!("{set:?}").contains("hunter2"));
}

#[test]
fn vs_code_with_comments_and_openclaw() {
    let code = r#"{
        // The servers of this workspace.
        "inputs": [{ "type": "promptString", "id": "key", }],
        "servers": { "one": { "type": "stdio", "command": "${env:TOKEN}", "cwd": "/w", }, },
    }"#;
    assert_eq!(names(&json(code).unwrap()), ["one"]);
    let claw =
        r#"{ "mcp": { "servers": { "two": { "command": "x", "connectionTimeoutMs": 1500 } } } }"#;
    let set = json(claw).unwrap();
    assert_eq!(
        set.servers[0].config.startup_timeout,
        Duration::from_millis(1500)
    );
}

#[test]
fn our_own_keys() {
    let set = json(
        r#"{ "mcpServers": { "s": {
            "command": "x", "launcher": "docker", "launcherOptions": { "image": "a:${TAG:-latest}" },
            "required": true, "startupTimeout": "90s", "callTimeout": false, "idleTtl": false,
            "sharing": "exclusive", "maxLive": 3, "passEnv": ["HTTPS_PROXY"], "inheritEnv": "nothing",
            "restart": { "maxRestarts": 2, "initial": "500ms" }, "shutdown": { "eofGrace": 0.25 }
        } } }"#,
    )
    .unwrap();
    let FleetServer {
        config: server,
        options,
    } = &set.servers[0];
    assert_eq!(server.launcher().name(), "docker");
    assert_eq!(server.spec().options()["image"], "a:latest");
    assert!(options.required);
    assert_eq!(server.startup_timeout, Duration::from_secs(90));
    assert_eq!((options.idle_ttl, options.max_live), (None, Some(3)));
    assert_eq!(server.call_options.timeout, None);
    assert_eq!(options.sharing, Sharing::Exclusive);
    assert_eq!(options.restart.max_restarts, Some(2));
    assert_eq!(options.restart.initial, Duration::from_millis(500));
    assert_eq!(server.termination.eof_grace, Duration::from_millis(250));
    assert_eq!(server.spec().env().passed().count(), 1);
}

#[test]
fn a_wrong_value_is_an_error_with_its_place() {
    let at = |text: &str| {
        let error = json(text).unwrap_err();
        (
            error.context().line,
            error.context().column,
            error.to_string(),
        )
    };
    let (line, column, text) = at("{\n \"mcpServers\": {\n  \"é\": { \"command\": 5 } } }");
    assert_eq!(
        (line, text.contains("expected a string")),
        (3, true),
        "{text}"
    );
    assert!((19..=21).contains(&column), "{text}");
    let (line, _, text) = at(
        "{\n \"mcpServers\": {\n  \"s\": { \"command\": \"x\",\n \"startupTimeout\": \"soon\" } } }",
    );
    assert_eq!((line, text.contains("500ms")), (4, true), "{text}");
    let (line, column, text) = at("{ \"mcpServers\": {\n \"s\": { \"command\": \"${NOPE}\" } } }");
    assert_eq!((line, column), (2, 21), "{text}");
    assert!(text.contains("`NOPE` is not set"), "{text}");
    let (line, _, text) =
        at("{ \"mcpServers\": {\n \"s\": { \"command\": \"x\", \"launcher\": \"k8s\" } } }");
    assert!(
        line == 2 && text.contains("there are: docker, local"),
        "{text}"
    );
    let (line, _, text) = at("{ \"mcpServers\": {\n \"s\": { \"args\": [] } } }");
    assert!(
        line == 2 && text.contains("neither `command` nor `url`"),
        "{text}"
    );
    let (_, _, text) =
        at("{ \"mcpServers\": { \"s\": {\"command\":\"x\"}, \"s\": {\"command\":\"x\"} } }");
    assert!(text.contains("occurs twice"), "{text}");
    let (line, _, text) = at("{ \"mcpServer\": {} }");
    assert!(line == 0 && text.contains("no servers"), "{text}");
    let (line, _, text) =
        at("{ \"mcpServers\": {\n \"s\": { \"command\": \"x\", \"args\": \"bar\" } } }");
    let expected = "server `s`: expected an array of strings";
    assert!(line == 2 && text.contains(expected), "{text}");
}

#[test]
fn a_host_on_its_first_start_has_no_servers() {
    for text in ["{}", " {\n} ", r#"{ "mcpServers": {} }"#] {
        let registry = LauncherRegistry::new(Arc::new(Named("local")));
        let set = ConfigReader::new(&registry).read_str(text, Format::Json);
        let set = set.unwrap();
        assert!(set.servers.is_empty(), "{text}");
        let warned = set.skipped == [Skipped::NoServers];
        assert_eq!(warned, !text.contains("mcpServers"), "{text}");
    }
}

#[test]
fn no_error_shows_a_value_of_the_environment() {
    for env in [
        r#"{ "KEY": 31337 }"#,
        r#""KEY=31337""#,
        r#"{ "KEY": ["31337"] }"#,
        "[31337]",
        "31337",
    ] {
        let text = format!(r#"{{ "mcpServers": {{ "s": {{ "command": "x", "env": {env} }} }} }}"#);
        let error = json(&text).unwrap_err();
        assert!(!error.to_string().contains("31337"), "{error}");
        assert!(!format!("{error:?}").contains("31337"), "{error:?}");
    }
}

#[cfg(feature = "toml")]
#[test]
fn codex() {
    let text = r#"
        model = "x"
        [mcp_servers.files]
        command = "npx"
        args = ["-y", "server-files"]
        env = { KEY = "${TOKEN}" }
        env_vars = ["HTTPS_PROXY"]
        startup_timeout_sec = 20.5
        tool_timeout_sec = 60
        [mcp_servers.far]
        url = "https://example.com/mcp"
        [mcp_servers.off]
        command = "x"
        enabled = false
    "#;
    let set = read(text, Format::Toml).unwrap();
    assert_eq!((names(&set), set.skipped.len()), (vec!["files"], 2));
    assert_eq!(
        set.servers[0].config.startup_timeout,
        Duration::from_millis(20_500)
    );
    assert_eq!(
        set.servers[0].config.call_options.timeout,
        Some(Duration::from_secs(60))
    );
    let error = read("[mcp_servers.s]\ncommand = 5\n", Format::Toml).unwrap_err();
    assert_eq!(
        (error.context().line, error.context().column),
        (2, 11),
        "{error}"
    );
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let launchers = LauncherRegistry::new(Arc::new(Named("local")));
    let error = ConfigReader::new(&launchers)
        .read_file("no/such/file.json")
        .unwrap_err();
    let text = error.to_string();
    // ENOENT, or that the path is not found.
    const MISSING: i32 = if cfg!(windows) { 3 } else { 2 };
    assert!(
        text.starts_with("no/such/file.json: the file cannot be read: ")
            && text.ends_with(&std::io::Error::from_raw_os_error(MISSING).to_string()),
        "{text}"
    );
}

#[test]
fn comments_and_trailing_commas_are_read_and_move_no_position() {
    let entries = "\"s\": { \"command\": \"// no, }\", /* , }\n */ } ,";
    let text = format!("{{ // é\n \"mcpServers\": {{ {entries} \n }},\n}}");
    assert_eq!(json(&text).unwrap().servers.len(), 1);
    let text =
        format!("{{ // é\n \"mcpServers\": {{ {entries}\n \"t\": {{ \"command\": 1 }} }} }}");
    assert_eq!(json(&text).unwrap_err().context().line, 4);
    assert!(json("{ /* without an end").is_err());
}
