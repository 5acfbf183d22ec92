use std::collections::BTreeSet;

use mcp_lifecycle_core::document::Format;

use super::format::Table;
use super::hosts;
use super::rewrite::{self, Rewritten, Shape, Wrapper};

mod random;

const PATH: &str = "/opt/it's \"here\"/mcp-contain";

fn wrapper() -> Wrapper<'static> {
    wrapper_with(&[])
}

fn wrapper_with(options: &[String]) -> Wrapper<'_> {
    Wrapper {
        path: PATH,
        options,
        is_file: &|path| path == "/opt/my server/run",
        program_at: &crate::cli::program_at,
        plugins: &[],
    }
}

fn tables(format: Format) -> Vec<Table> {
    hosts::all_tables(format)
}

fn wrap(text: &str, format: Format) -> Result<Rewritten, String> {
    let tables = tables(format);
    let shape = Shape {
        format,
        tables: &tables,
    };
    let once = rewrite::wrap(text, shape, &wrapper());
    // With options it is the same.
    let options = ["--hardened", "--write=/a \"b\""].map(str::to_owned);
    let hardened = rewrite::wrap(text, shape, &wrapper_with(&options));
    let changes = |it: &Result<Rewritten, _>| it.as_ref().map(|it| it.changes.len()).ok();
    assert_eq!(changes(&hardened), changes(&once));
    if let Ok(hardened) = hardened {
        let kept = rewrite::wrapped(text, shape).unwrap();
        let back = rewrite::unwrap(&hardened.text, shape, &wrapper(), &kept).unwrap();
        assert_eq!(back.text, text);
    }
    once
}

fn undo(text: &str, format: Format) -> Rewritten {
    let tables = tables(format);
    let shape = Shape {
        format,
        tables: &tables,
    };
    rewrite::unwrap(text, shape, &wrapper(), &BTreeSet::new()).unwrap()
}

/// Wrapped, after it was made sure that the way back is exact and a second time changes nothing.
fn wrapped(text: &str, format: Format) -> Rewritten {
    let once = wrap(text, format).unwrap();
    assert_eq!(undo(&once.text, format).text, text);
    let twice = wrap(&once.text, format).unwrap();
    assert_eq!(
        (twice.text.as_str(), twice.changes.len()),
        (once.text.as_str(), 0)
    );
    once
}

fn json(text: &str) -> String {
    let quoted = Format::Json.quote(PATH);
    wrapped(text, Format::Json).text.replace(&quoted, "W")
}

fn toml(text: &str) -> String {
    let quoted = Format::Toml.quote(PATH);
    wrapped(text, Format::Toml).text.replace(&quoted, "W")
}

/// Why the only server of a file is left as it is.
fn reason(text: &str, format: Format) -> String {
    let rewritten = wrapped(text, format);
    assert_eq!(rewritten.text, text);
    assert_eq!(rewritten.skipped.len(), 1, "{rewritten:?}");
    rewritten.skipped[0].1.to_string()
}

#[test]
fn the_command_moves_to_the_front_of_its_arguments() {
    assert_eq!(
        json(r#"{"mcpServers": {"a": {"command": "npx", "args": ["-y", "x"]}}}"#),
        r#"{"mcpServers": {"a": {"command": W, "args": ["npx", "-y", "x"]}}}"#
    );
    assert_eq!(
        json(r#"{"mcpServers": {"a": {"args": [ ], "command": "npx"}}}"#),
        r#"{"mcpServers": {"a": {"args": ["npx" ], "command": W}}}"#
    );
    assert_eq!(
        json(r#"{"mcpServers": {"a": {"command": "npx"}}}"#),
        r#"{"mcpServers": {"a": {"command": W, "args": [ "npx" ]}}}"#
    );
    // Its containers end with it: `run` sees that the command names an engine.
    assert_eq!(
        json(
            r#"{"mcpServers": {"a": {"command": "docker", "args": ["run", "-i", "--rm", "mcp/time"]}}}"#
        ),
        r#"{"mcpServers": {"a": {"command": W, "args": ["docker", "run", "-i", "--rm", "mcp/time"]}}}"#
    );
}

#[cfg(target_os = "linux")]
#[test]
fn an_agent_gets_its_servers_contained() {
    assert_eq!(
        json(
            r#"{"agent_servers": {"a": {"type": "custom", "command": "node", "args": ["x.js"], "env": {}}}}"#
        ),
        r#"{"agent_servers": {"a": {"type": "custom", "command": W, "args": ["host", "--", "node", "x.js"], "env": {}}}}"#
    );
    assert_eq!(
        json(r#"{"agent_servers": {"a": {"command": "host"}}}"#),
        r#"{"agent_servers": {"a": {"command": W, "args": [ "host", "--", "host" ]}}}"#
    );
    let registered = r#"{"agent_servers": {"claude": {"type": "registry", "env": {}}}}"#;
    assert_eq!(reason(registered, Format::Json), "has no command");
}

#[test]
fn what_a_plugin_has_too_is_left_as_it_is() {
    let plugins = [("p › a".to_owned(), vec!["npx".to_owned(), "x".to_owned()])];
    let text = r#"{"mcpServers": {"a": {"command": "npx", "args": ["x"]}, "b": {"command": "npx", "args": ["y"]}, "c": {"command": "npx"}}}"#;
    let tables = tables(Format::Json);
    let shape = Shape {
        format: Format::Json,
        tables: &tables,
    };
    let wrapper = Wrapper {
        plugins: &plugins,
        ..wrapper()
    };
    let rewritten = rewrite::wrap(text, shape, &wrapper).unwrap();
    assert_eq!((rewritten.changes.len(), rewritten.skipped.len()), (2, 1));
    let (title, why) = &rewritten.skipped[0];
    assert_eq!(title, "mcpServers › a");
    assert!(why.to_string().contains("in the plugin p › a too"), "{why}");
    assert!(
        rewritten
            .text
            .contains(r#""a": {"command": "npx", "args": ["x"]}"#)
    );
}

#[test]
fn options_are_written_behind_the_wrapper_and_no_others_later() {
    let options = ["--hardened", "--write=default"].map(str::to_owned);
    for (format, text, expected) in [
        (
            Format::Json,
            r#"{"mcpServers": {"a": {"command": "npx", "args": ["-y", "x"]}}}"#,
            r#"{"mcpServers": {"a": {"command": W, "args": ["--hardened", "--write=default", "npx", "-y", "x"]}}}"#,
        ),
        (
            Format::Json,
            r#"{"mcpServers": {"a": {"command": "stop"}}}"#,
            r#"{"mcpServers": {"a": {"command": W, "args": [ "--hardened", "--write=default", "--", "stop" ]}}}"#,
        ),
        (
            Format::Json,
            r#"{"mcp": {"a": {"type": "local", "command": ["npx", "x"]}}}"#,
            r#"{"mcp": {"a": {"type": "local", "command": [W, "--hardened", "--write=default", "npx", "x"]}}}"#,
        ),
        (
            Format::Toml,
            "[mcp_servers.a]\ncommand = 'npx'\nargs = []\n",
            "[mcp_servers.a]\ncommand = W\nargs = [\"--hardened\", \"--write=default\", 'npx']\n",
        ),
    ] {
        let tables = tables(format);
        let shape = Shape {
            format,
            tables: &tables,
        };
        let once = rewrite::wrap(text, shape, &wrapper_with(&options)).unwrap();
        assert_eq!(once.text.replace(&format.quote(PATH), "W"), expected);
        assert_eq!(undo(&once.text, format).text, text);
        let left = |text: &str, options| {
            let again = rewrite::wrap(text, shape, &wrapper_with(options)).unwrap();
            assert_eq!(again.text, text);
            again.skipped[0].1.to_string()
        };
        for options in [&[][..], &options[1..], &options] {
            assert_eq!(left(&once.text, options), "is wrapped already");
        }
        let plain = wrap(text, format).unwrap().text;
        let why = left(&plain, &options[..1]);
        assert!(why.contains("without these options"), "{why}");
    }
}

#[test]
fn it_is_written_as_the_lines_around_it_are() {
    let text = "{\r\n\t\"servers\": {\r\n\t\t\"a\": {\r\n\t\t\t\"command\": \"npx\" // no arguments\r\n\t\t},\r\n\
                \t\t\"b\": {\r\n\t\t\t\"type\": \"stdio\",\r\n\t\t\t\"command\": \"uvx\",\r\n\t\t\t\"args\": [\r\n\
                \t\t\t\t\"mcp-server-time\", // the only one\r\n\t\t\t],\r\n\t\t},\r\n\t},\r\n}";
    let expected = text
        .replace("\"npx\" //", "W,\r\n\t\t\t\"args\": [ \"npx\" ] //")
        .replace("\"uvx\"", "W")
        .replace("\"mcp-server", "\"uvx\",\r\n\t\t\t\t\"mcp-server");
    assert_eq!(json(text), expected);
}

#[test]
fn everything_else_stays() {
    for text in [
        "",
        "\u{feff}",
        "  \n",
        "// nothing but a comment",
        "null",
        "[]",
        "{}",
        "{\"mcpServers\": null}",
        "{\"mcpServers\": [{\"command\": \"npx\"}]}",
        "{\"mcpServers\": {\"a\": \"npx\"}}",
        "{\"other\": {\"a\": {\"command\": \"npx\"}}}",
        "{\"mcpServers\": {}}",
    ] {
        assert_eq!(json(text), text);
    }
    for text in [
        "",
        "# nothing\n",
        "[mcp_servers]\n",
        "model = \"x\"\nmcp_servers = []\n",
    ] {
        assert_eq!(toml(text), text);
    }
    assert_eq!(
        json(
            "\u{feff}{\"mcpServers\": {\"a\": {\"x\": 1, \"command\": \"\\u006epx\", \"args\": [\"ü\"]}}}\r\n\r\n"
        ),
        "\u{feff}{\"mcpServers\": {\"a\": {\"x\": 1, \"command\": W, \"args\": [\"\\u006epx\", \"ü\"]}}}\r\n\r\n"
    );
}

#[test]
fn every_host_has_its_tables() {
    let claude_code = r#"{
  "numStartups": 3,
  "mcpServers": {"u": {"type": "stdio", "command": "npx", "args": [], "env": {}}},
  "projects": {"/home/u/p": {"allowedTools": [], "mcpServers": {"p": {"command": "uvx", "args": ["x"]}}}}
}"#;
    let rewritten = wrapped(claude_code, Format::Json);
    let titles: Vec<_> = rewritten
        .changes
        .iter()
        .map(|change| change.title.as_str())
        .collect();
    assert_eq!(
        titles,
        ["mcpServers › u", "projects › /home/u/p › mcpServers › p"]
    );
    for text in [
        r#"{"mcp": {"servers": {"a": {"command": "npx"}}}}"#,
        r#"{"servers": {"a": {"command": "npx"}}}"#,
        r#"{"context_servers": {"a": {"source": "custom", "command": "npx", "args": ["x"]}}}"#,
        "{mcp: {servers: {'a-b': {command: 'npx', args: ['-y', 'it\\'s'],}}}}",
    ] {
        assert_eq!(wrapped(text, Format::Json).changes.len(), 1, "{text}");
    }
}

#[test]
fn toml_in_all_its_forms() {
    assert_eq!(
        toml(
            "# c\n[mcp_servers.a]\ncommand = 'npx' # why\nargs = [\n  \"-y\", # yes\n  \"x\",\n]\n"
        ),
        "# c\n[mcp_servers.a]\ncommand = W # why\nargs = [\n  'npx',\n  \"-y\", # yes\n  \"x\",\n]\n"
    );
    assert_eq!(
        toml("[mcp_servers.a]\r\n  command = \"npx\" # c\r\n[mcp_servers.a.env]\r\nK = \"v\"\r\n"),
        "[mcp_servers.a]\r\n  args = [ \"npx\" ]\r\n  command = W # c\r\n[mcp_servers.a.env]\r\nK = \"v\"\r\n"
    );
    assert_eq!(
        toml("mcp_servers.a.command = \"npx\""),
        "mcp_servers.a.args = [ \"npx\" ]\nmcp_servers.a.command = W"
    );
    assert_eq!(
        toml("[mcp_servers]\na = { command = \"npx\" }\nb = { command = \"uvx\", args = [] }\n"),
        "[mcp_servers]\na = { command = W, args = [ \"npx\" ] }\nb = { command = W, args = [\"uvx\"] }\n"
    );
    assert_eq!(
        toml("[mcp_servers.a]\nurl = \"https://x\"\n"),
        "[mcp_servers.a]\nurl = \"https://x\"\n"
    );
}

#[test]
fn who_is_left_as_it_is_and_why() {
    for (server, why) in [
        (
            r#"{"url": "https://x"}"#,
            "is reached by its url, and not started",
        ),
        (
            r#"{"type": "http", "serverUrl": "https://x"}"#,
            "is reached by its url, and not started",
        ),
        (r#"{"type": "stdio"}"#, "has no command"),
        (r#"{"command": ""}"#, "has no command"),
        (r#"{"command": null}"#, "has a `command` that is no text"),
        (
            r#"{"command": "npx", "args": "-y x"}"#,
            "has `args` that are no list",
        ),
        (
            r#"{"command": "npx", "command": "uvx"}"#,
            "has `command` twice",
        ),
        (
            r#"{"command": "npx", "args": [], "args": []}"#,
            "has `args` twice",
        ),
        (
            r#"{"command": "/usr/bin/mcp-contain", "args": ["npx"]}"#,
            "is wrapped already",
        ),
        (
            r#"{"command": "C:\\bin\\mcp-contain.exe", "args": ["npx"]}"#,
            "is wrapped already",
        ),
        (
            r#"{"command": "env", "args": ["A=1", "mcp-contain", "npx"]}"#,
            "is wrapped already",
        ),
        (
            r#"{"command": "npx -y x"}"#,
            "has a line for a shell as its command; split it into `command` and `args`",
        ),
    ] {
        let text = format!("{{\"mcpServers\": {{\"a\": {server}}}}}");
        let rewritten = wrap(&text, Format::Json).unwrap();
        assert_eq!(rewritten.text, text);
        assert_eq!(rewritten.skipped[0].1.to_string(), why, "{server}");
    }
    assert_eq!(
        reason("[mcp_servers.a]\nurl = 'x'\n", Format::Toml),
        "is reached by its url, and not started"
    );
    assert_eq!(
        reason("[mcp_servers.a]\ncommand = 1\n", Format::Toml),
        "has a `command` that is no text"
    );
    let spaced = r#"{"mcpServers": {"a": {"command": "/opt/my server/run", "disabled": true}}}"#;
    assert_eq!(
        wrapped(spaced, Format::Json).changes.len(),
        1,
        "a path with a space, disabled"
    );
}

#[test]
fn a_server_whose_name_occurs_twice_is_wrapped_twice() {
    let text = r#"{"mcpServers": {"a": {"command": "npx"}, "a": {"command": "uvx"}}}"#;
    assert_eq!(wrapped(text, Format::Json).changes.len(), 2);
}

#[test]
fn a_program_that_is_called_like_a_word_of_ours_follows_two_dashes() {
    assert_eq!(
        json(r#"{"mcpServers": {"a": {"command": "wrap", "args": ["--undo"]}}}"#),
        r#"{"mcpServers": {"a": {"command": W, "args": ["--", "wrap", "--undo"]}}}"#
    );
}

#[test]
fn a_word_that_a_later_version_may_know_is_told_from_it_as_well() {
    let word = r#"{"mcpServers": {"a": {"command": "share"}, "b": {"command": "node"}, "c": {"command": "./share"}}}"#;
    let text = json(word);
    assert_eq!(text.matches("\"--\"").count(), 1, "{text}");
    assert!(text.contains(r#"[ "--", "share" ]"#), "{text}");
}

#[test]
fn what_is_no_json_and_no_toml_is_said_with_its_place() {
    let error = wrap("{\n  \"mcpServers\": {\n    \"a\" \"b\"\n}", Format::Json).unwrap_err();
    assert!(error.contains("line 3"), "{error}");
    let error = wrap("[mcp_servers.a]\ncommand = npx\n", Format::Toml).unwrap_err();
    assert!(error.contains("line 2"), "{error}");
    assert!(
        wrap("{\"a\": 1 \"b\": 2}", Format::Json).is_err(),
        "no host takes it either"
    );
    assert!(wrap(&"[".repeat(100_000), Format::Json).is_err());
}

#[test]
fn options_that_were_added_by_hand_go_with_the_wrapper() {
    let text = r#"{"mcpServers": {"a": {"command": "/x/mcp-contain", "args": ["--grace", "5s", "npx", "-y"]},
"b": {"command": "mcp-contain", "args": ["run", "--", "uvx"]}, "c": {"command": "mcp-contain", "args": []}}}"#;
    let undone = undo(text, Format::Json);
    assert_eq!(
        undone.text,
        r#"{"mcpServers": {"a": {"command": "npx", "args": ["-y"]},
"b": {"command": "uvx", "args": []}, "c": {"command": "mcp-contain", "args": []}}}"#
    );
    assert_eq!(
        undone.skipped[0].1.to_string(),
        "is wrapped, but the command is not among its arguments"
    );
}

#[test]
fn a_host_that_has_formatted_the_file_changes_nothing_of_what_it_means() {
    let text = r#"{"mcpServers":{"a":{"command":"npx","args":["-y","x"]},"b":{"args":[],"command":"uvx"},"c":{"command":"node"}}}"#;
    let once: serde_json::Value = serde_json::from_str(&wrapped(text, Format::Json).text).unwrap();
    let formatted = serde_json::to_string_pretty(&once).unwrap();
    let back: serde_json::Value =
        serde_json::from_str(&undo(&formatted, Format::Json).text).unwrap();
    let servers = &back["mcpServers"];
    assert_eq!(
        servers["a"],
        serde_json::json!({"command": "npx", "args": ["-y", "x"]})
    );
    assert_eq!(servers["b"]["command"], "uvx");
    assert!(
        servers["b"]
            .get("args")
            .is_none_or(|args| args == &serde_json::json!([]))
    );
    assert_eq!(servers["c"]["command"], "node");
}

#[test]
fn a_diff_shows_the_server_and_no_secret() {
    let text = "{\n  \"token\": \"SECRET1\", \"mcpServers\": {\n    \"a\": {\n      \"command\": \"npx\",\n      \
                \"env\": {\"KEY\": \"SECRET2\"}, \"headers\": {\"Authorization\": \"SECRET3\"}\n    }\n  }\n}\n";
    let rewritten = wrapped(text, Format::Json);
    let change = &rewritten.changes[0];
    let lines = change.lines().join("\n");
    assert_eq!(change.line, 3);
    assert!(lines.contains("-      \"command\": \"npx\""), "{lines}");
    assert!(lines.contains("+      \"args\": [ \"npx\" ]"), "{lines}");
    assert!(
        lines.contains("{\"KEY\": \"…\"}") && !lines.contains("SECRET"),
        "{lines}"
    );
    let toml =
        "[mcp_servers.a]\ncommand = \"npx\"\nenv = { K = \"SECRET\" }\n\n[other]\nx = \"SECRET\"\n";
    let lines = wrapped(toml, Format::Toml).changes[0].lines().join("\n");
    assert!(
        lines.contains("+args = [ \"npx\" ]") && !lines.contains("SECRET"),
        "{lines}"
    );
    for (text, format) in [
        (
            r#"{"mcpServers": {"a": {"apiKey": "SECRET", "env": ["T=SECRET"], "command": "npx", "oauth": {"x": [{"y": "SECRET"}]}}}}"#,
            Format::Json,
        ),
        (
            "[mcp_servers.a]\ncommand = \"npx\"\nbearer = 'SECRET'\nx = [['SECRET']]\ny.z = 'SECRET'\n",
            Format::Toml,
        ),
        (
            "mcp_servers = { a = { command = \"npx\", token = 'SECRET' } }\n",
            Format::Toml,
        ),
    ] {
        let lines = wrapped(text, format).changes[0].lines().join("\n");
        assert!(
            lines.contains("npx") && !lines.contains("SECRET"),
            "{lines}"
        );
    }
    let hostile = "{\"mcpServers\": {\"a\u{1b}[2J\": {\"command\": \"n\u{7}px\"}}}";
    for change in wrap(hostile, Format::Json)
        .map(|it| it.changes)
        .unwrap_or_default()
    {
        let all = format!("{}{}", change.title, change.lines().concat());
        assert!(!all.contains(['\u{1b}', '\u{7}']), "{all:?}");
    }
}

#[test]
fn a_command_that_is_a_list_gets_the_wrapper_in_front() {
    for (text, expected) in [
        (
            r#"{"mcp": {"a": {"command": ["npx", "-y", "x"]}}}"#,
            r#"{"mcp": {"a": {"command": [W, "npx", "-y", "x"]}}}"#,
        ),
        (
            r#"{"mcp": {"a": {"command": [ /* no */ "ps" ]}}}"#,
            r#"{"mcp": {"a": {"command": [ /* no */ W, "--", "ps" ]}}}"#,
        ),
        (
            r#"{"mcpServers": {"a": {"command": ["npx",], "args": []}}}"#,
            r#"{"mcpServers": {"a": {"command": [W, "npx",], "args": []}}}"#,
        ),
    ] {
        assert_eq!(json(text), expected);
    }
    for (text, why) in [
        (r#"{"mcp": {"a": {"command": []}}}"#, "has no command"),
        (
            r#"{"mcp": {"a": {"command": [7]}}}"#,
            "has a `command` that is no text",
        ),
        (
            r#"{"mcpServers": {"a": "npx"}}"#,
            "is not written as a server, which is a table with `command` and `args`",
        ),
        (
            r#"{"mcpServers": {"a": null}}"#,
            "is not written as a server, which is a table with `command` and `args`",
        ),
    ] {
        assert_eq!(reason(text, Format::Json), why, "{text}");
    }
    let text = "[mcp_servers]\na = 'npx'\n";
    assert_eq!(
        reason(text, Format::Toml),
        "is not written as a server, which is a table with `command` and `args`"
    );
}
