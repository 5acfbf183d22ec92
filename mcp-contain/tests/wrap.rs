//! `mcp-contain wrap` on the files of a home directory.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-contain");

const CURSOR: &str = "{\r\n\t// mine\r\n\t\"mcpServers\": {\r\n\t\t\"time\": {\"command\": \"uvx\", \"args\": [\"mcp-server-time\"], \
                      \"env\": {\"TOKEN\": \"SECRET\"}},\r\n\t\t\"far\": {\"url\": \"https://example.com\"},\r\n\t},\r\n}";

const CODEX: &str =
    "model = \"x\" # mine\n\n[mcp_servers.time]\ncommand = \"uvx\"\nargs = [\"mcp-server-time\"]\n";

const PROJECT: &str = "{\"mcpServers\": {\"p\": {\"command\": \"npx\"}}}";

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        home.write(".cursor/mcp.json", CURSOR);
        home.write(".codex/config.toml", CODEX);
        home.write("project/.mcp.json", PROJECT);
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// As a user calls it, in the project's directory.
    fn wrap(&self, arguments: &[&str]) -> Output {
        Command::new(PROGRAM)
            .arg("wrap")
            .args(arguments)
            .env_clear()
            .env("HOME", self.0.path())
            .current_dir(self.path("project"))
            .output()
            .unwrap()
    }

    #[track_caller]
    fn says(&self, arguments: &[&str]) -> String {
        let output = self.wrap(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[track_caller]
    fn complains(&self, arguments: &[&str]) -> String {
        let output = self.wrap(arguments);
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    }
}

fn has_backup(path: &Path) -> bool {
    let mut backup = path.as_os_str().to_owned();
    backup.push(".before-mcp-contain");
    Path::new(&backup).exists()
}

#[test]
fn all_files_of_all_hosts_there_and_back() {
    let home = Home::new();
    let shown = home.says(&["--dry-run"]);
    assert!(shown.starts_with("Cursor: "), "{shown}");
    assert!(
        shown.contains("mcpServers › far is reached by its url"),
        "{shown}"
    );
    assert!(
        shown.contains("2 servers in 2 files") && !shown.contains("SECRET"),
        "{shown}"
    );
    assert_eq!(home.read(".cursor/mcp.json"), CURSOR, "only shown");

    let done = home.says(&[]);
    assert!(done.contains("Wrapped 2 servers in 2 files"), "{done}");
    let cursor = home.read(".cursor/mcp.json");
    assert!(
        cursor.contains(&format!(
            "\"command\": \"{PROGRAM}\", \"args\": [\"uvx\", \"mcp-server-time\"]"
        )),
        "{cursor}"
    );
    assert!(
        home.read(".codex/config.toml")
            .contains("args = [\"uvx\", \"mcp-server-time\"]")
    );
    assert_eq!(home.read("project/.mcp.json"), PROJECT, "others share it");

    let again = home.says(&[]);
    assert!(
        again.contains("Nothing to do: 2 servers are wrapped already"),
        "{again}"
    );
    assert_eq!(home.read(".cursor/mcp.json"), cursor);

    let undone = home.says(&["--undo"]);
    assert!(undone.contains("to the byte"), "{undone}");
    assert_eq!(
        (
            home.read(".cursor/mcp.json"),
            home.read(".codex/config.toml")
        ),
        (CURSOR.into(), CODEX.into())
    );
    assert!(!has_backup(&home.path(".cursor/mcp.json")));
}

#[test]
fn a_hardened_server_is_written_so_and_undone_to_the_byte() {
    let home = Home::new();
    home.says(&["--hardened", "--write", "default", "--write", "../data"]);
    let data = home.path("project").join("../data");
    let words = format!(
        "[\"--hardened\", \"--write=default\", \"--write={}\", \"uvx\", \"mcp-server-time\"]",
        data.display()
    );
    for file in [".cursor/mcp.json", ".codex/config.toml"] {
        assert!(home.read(file).contains(&words), "{}", home.read(file));
    }
    let again = home.says(&[]);
    assert!(again.contains("2 servers are wrapped already"), "{again}");
    assert!(home.says(&["--undo"]).contains("to the byte"));
    assert_eq!(home.read(".cursor/mcp.json"), CURSOR);
    assert_eq!(home.read(".codex/config.toml"), CODEX);
    // One that is wrapped is not left without what is asked for.
    home.says(&[]);
    let refused = home.wrap(&["--hardened"]);
    let said = String::from_utf8(refused.stdout).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    let why = "time is wrapped without these options";
    assert_eq!(said.matches(why).count(), 2, "{said}");
}

#[test]
fn one_host_one_file_and_the_project() {
    let home = Home::new();
    home.says(&["--host", "codex"]);
    assert_eq!(home.read(".cursor/mcp.json"), CURSOR);
    assert_ne!(home.read(".codex/config.toml"), CODEX);
    home.says(&["--project", "--host", "claude-code"]);
    assert_ne!(home.read("project/.mcp.json"), PROJECT);
    home.says(&["--undo", ".mcp.json"]);
    assert_eq!(home.read("project/.mcp.json"), PROJECT);
    home.write("mine.json", PROJECT);
    home.says(&["../mine.json"]);
    assert_ne!(home.read("mine.json"), PROJECT);
    assert_eq!(home.wrap(&["--host", "nobody"]).status.code(), Some(125));
    assert!(
        home.complains(&["none.json"])
            .contains("none.json is not there")
    );
}

#[test]
fn a_file_that_was_changed_meanwhile_is_put_back_server_by_server() {
    let home = Home::new();
    home.says(&[]);
    let changed = home.read(".codex/config.toml") + "\n[mcp_servers.new]\ncommand = \"node\"\n";
    home.write(".codex/config.toml", &changed);
    // A second time, with the new one.
    home.says(&[]);
    let undone = home.says(&["--undo"]);
    assert!(
        undone.contains("one by one") && undone.contains("can be deleted"),
        "{undone}"
    );
    let expected = CODEX.to_owned() + "\n[mcp_servers.new]\ncommand = \"node\"\n";
    assert_eq!(home.read(".codex/config.toml"), expected);
    assert!(has_backup(&home.path(".codex/config.toml")));
    assert_eq!(home.read(".codex/config.toml.before-mcp-contain"), CODEX);
}

#[test]
fn what_was_wrapped_by_hand_stays_so() {
    let home = Home::new();
    let text = "{\"mcpServers\": {\"a\": {\"command\": \"mcp-contain\", \"args\": [\"npx\"]}, \"b\": {\"command\": \"uvx\"}}}";
    home.write(".cursor/mcp.json", text);
    home.says(&[]);
    assert!(
        home.says(&["--undo", "--dry-run"])
            .contains("was wrapped by hand, and stays so")
    );
    home.says(&["--undo"]);
    assert_eq!(home.read(".cursor/mcp.json"), text);
}

#[test]
fn one_that_cannot_be_changed_keeps_no_other_back() {
    let home = Home::new();
    let path = home.path(".codex/config.toml");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    home.write(".gemini/settings.json", "{\"mcpServers\": ");
    let errors = home.complains(&[]);
    assert!(
        errors.contains("config.toml is read-only; make it writable first"),
        "{errors}"
    );
    assert!(
        errors.contains("settings.json cannot be understood, and is left as it is"),
        "{errors}"
    );
    assert_ne!(home.read(".cursor/mcp.json"), CURSOR);
    assert_eq!(home.read(".codex/config.toml"), CODEX);
    assert!(!has_backup(&path), "nothing was changed");
}

#[test]
fn a_backup_that_cannot_be_used_blocks_no_way_back_and_is_not_replaced() {
    let home = Home::new();
    home.says(&["--host", "codex"]);
    let backup = ".codex/config.toml.before-mcp-contain";
    home.write(backup, "cut = [short");
    let again = home.read(".codex/config.toml") + "\n[mcp_servers.new]\ncommand = \"node\"\n";
    home.write(".codex/config.toml", &again);
    let refused = home.complains(&["--host", "codex"]);
    assert!(
        refused.contains(backup) && refused.contains("move the backup away"),
        "{refused}"
    );
    let undone = home.says(&["--undo", "--host", "codex"]);
    assert!(undone.contains("the backup cannot be used"), "{undone}");
    let expected = CODEX.to_owned() + "\n[mcp_servers.new]\ncommand = \"node\"\n";
    assert_eq!(home.read(".codex/config.toml"), expected);
    assert_eq!(home.read(backup), "cut = [short");
}

#[test]
fn an_undo_needs_no_backup_and_the_next_wrap_makes_a_new_one() {
    let home = Home::new();
    let by_hand = "{\"mcpServers\": {\"a\": {\"command\": \"mcp-contain\", \"args\": [\"--grace\", \"20s\", \"npx\"]}}}";
    home.write(".cursor/mcp.json", by_hand);
    let undone = home.says(&["--undo", "--host", "cursor"]);
    assert!(
        undone.contains("there is no backup") && !undone.contains("changed since"),
        "{undone}"
    );
    home.says(&["--host", "codex"]);
    let changed = home.read(".codex/config.toml") + "# more\n";
    home.write(".codex/config.toml", &changed);
    home.says(&["--undo", "--host", "codex"]);
    home.says(&["--host", "codex"]);
    assert_eq!(
        home.read(".codex/config.toml.before-mcp-contain"),
        CODEX.to_owned() + "# more\n"
    );
}

#[test]
fn no_error_shows_a_secret() {
    let home = Home::new();
    home.write(
        ".codex/config.toml",
        "[mcp_servers.a]\ncommand = \"x\"\nenv = { TOKEN = sk-SECRET\u{1b}[2J }\n",
    );
    let errors = home.complains(&["--host", "codex"]);
    assert!(
        errors.contains("line 3") && !errors.contains("SECRET") && !errors.contains('\u{1b}'),
        "{errors}"
    );
}

#[test]
fn the_undo_command_that_wrap_prints_undoes_it() {
    let home = Home::new();
    home.write("my files/it's.json", PROJECT);
    let file = home.path("my files/it's.json");
    for arguments in [
        &["../my files/it's.json"][..],
        &["--host", "codex"],
        &["--project", "--host", "claude-code"],
        &[],
    ] {
        let done = home.says(arguments);
        let (_, command) = done
            .split_once("To undo it: ")
            .unwrap_or_else(|| panic!("{done}"));
        assert!(command.starts_with("mcp-contain wrap --undo"), "{done}");
        // As a user types it: through a shell, in whatever directory.
        let line = command.trim().replacen("mcp-contain", "\"$0\"", 1);
        let output = Command::new("/bin/sh")
            .args(["-c", &line, PROGRAM])
            .env_clear()
            .env("HOME", home.0.path())
            .current_dir("/")
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success() && said.contains("to the byte"),
            "{line}: {said}"
        );
    }
    assert_eq!(fs::read_to_string(file).unwrap(), PROJECT);
    assert_eq!(home.read("project/.mcp.json"), PROJECT);
    assert_eq!(home.read(".codex/config.toml"), CODEX);
    let nothing = home.says(&["--undo"]);
    assert!(
        nothing.contains("Nothing to undo") && nothing.contains("mcp-contain wrap --undo FILE"),
        "{nothing}"
    );
}

#[test]
fn a_wrap_that_could_do_nothing_says_why_and_where_it_looked() {
    let home = Home::new();
    for file in [".cursor/mcp.json", ".codex/config.toml"] {
        fs::remove_file(home.path(file)).unwrap();
    }
    let none = home.says(&[]);
    assert!(
        none.contains("No configuration file of a known host was found")
            && none.contains(".config/Claude/claude_desktop_config.json"),
        "{none}"
    );
    let one = home.wrap(&["--host", "cursor"]);
    assert_eq!(one.status.code(), Some(1), "it was named");
    let one = String::from_utf8(one.stdout).unwrap();
    assert!(
        one.contains(".cursor/mcp.json") && !one.contains("Claude"),
        "{one}"
    );

    home.write(".cursor/mcp.json", "{\"mcpServers\": ");
    let broken = home.wrap(&[]);
    let said = String::from_utf8(broken.stdout).unwrap();
    assert_eq!(broken.status.code(), Some(1));
    assert!(
        said.contains("Nothing was changed: 1 file has an error"),
        "{said}"
    );
    let errors = String::from_utf8(broken.stderr).unwrap();
    assert!(errors.contains("mend it, then call this again"), "{errors}");

    let homeless = Command::new(PROGRAM)
        .arg("wrap")
        .env_clear()
        .output()
        .unwrap();
    let errors = String::from_utf8(homeless.stderr).unwrap();
    assert_eq!(homeless.status.code(), Some(1), "{errors}");
    assert!(errors.contains("HOME is not set"), "{errors}");
}

#[test]
fn servers_in_a_form_that_is_not_known_are_named_and_fail() {
    let home = Home::new();
    home.write(
        "x.json",
        "{\"mcpServers\": {\"d\": \"npx\", \"e\": null, \"f\": {\"command\": 7}}}",
    );
    let refused = home.wrap(&["../x.json"]);
    let said = String::from_utf8(refused.stdout).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    for server in ["mcpServers › d", "mcpServers › e", "mcpServers › f"] {
        assert!(said.contains(server), "{said}");
    }
    assert!(!said.contains("wrapped yet"), "{said}");
    home.write("y.json", "{\"tools\": {\"d\": {\"command\": \"npx\"}}}");
    let errors = home.complains(&["../y.json"]);
    assert!(
        errors.contains("has no servers where this program looks for them")
            && errors.contains("mcpServers"),
        "{errors}"
    );
    // Beside one that is known, they are named and keep nothing back.
    home.write(
        "z.json",
        "{\"mcpServers\": {\"d\": \"npx\", \"g\": {\"command\": \"npx\"}}}",
    );
    let done = home.says(&["../z.json"]);
    assert!(
        done.contains("mcpServers › d") && done.contains("Wrapped 1 server in 1 file."),
        "{done}"
    );
    let again = home.says(&["../z.json"]);
    assert!(again.contains("Nothing to do"), "{again}");
}

#[test]
fn opencode_qwen_code_and_mcporter_are_known() {
    let home = Home::new();
    let opencode = "{\n  // mine\n  \"mcp\": {\n    \"ev\": {\n      \"type\": \"local\",\n      \"command\": [\n        \"npx\",\n        \"-y\", \"x\"\n      ],\n      \"environment\": {\"TOKEN\": \"SECRET\"}\n    },\n    \"far\": {\"type\": \"remote\", \"url\": \"https://example.com\"}\n  }\n}\n";
    home.write(".config/opencode/opencode.jsonc", opencode);
    home.write(".qwen/settings.json", PROJECT);
    home.write(".mcporter/mcporter.json", PROJECT);
    let done = home.says(&[]);
    assert!(done.contains("Wrapped 5 servers in 5 files."), "{done}");
    assert!(!done.contains("SECRET"), "{done}");
    let changed = home.read(".config/opencode/opencode.jsonc");
    let command = format!("[\n        \"{PROGRAM}\", \"npx\",\n        \"-y\", \"x\"\n      ]");
    assert!(changed.contains(&command), "{changed}");
    assert!(home.says(&[]).contains("5 servers are wrapped already"));
    home.says(&["--undo"]);
    assert_eq!(home.read(".config/opencode/opencode.jsonc"), opencode);
    assert_eq!(home.read(".qwen/settings.json"), PROJECT);
    assert_eq!(home.read(".mcporter/mcporter.json"), PROJECT);
    // A copy anywhere is understood as well.
    home.write("copy.json", opencode);
    assert!(
        home.says(&["../copy.json"])
            .contains("Wrapped 1 server in 1 file.")
    );
}

#[test]
fn an_agent_of_zed_runs_behind_host() {
    const SETTINGS: &str = r#"{"agent_servers": {"a": {"command": "sh", "args": ["-c", "echo ran; exit 3"]}}, "theme": "x"}"#;
    let home = Home::new();
    home.write(".config/zed/settings.json", SETTINGS);
    home.says(&["--host", "zed"]);
    let text = home.read(".config/zed/settings.json");
    let settings: serde_json::Value = serde_json::from_str(&text).unwrap();
    let agent = &settings["agent_servers"]["a"];
    let words = agent["args"].as_array().unwrap().iter();
    let words: Vec<_> = words.map(|word| word.as_str().unwrap()).collect();
    assert_eq!(words[..3], ["host", "--", "sh"]);
    let mut agent = Command::new(agent["command"].as_str().unwrap());
    let output = agent.args(words).output().unwrap();
    assert_eq!(
        (&output.stdout[..], output.status.code()),
        (&b"ran\n"[..], Some(3))
    );
    home.says(&["--undo"]);
    assert_eq!(home.read(".config/zed/settings.json"), SETTINGS);
}

const CLAUDE: &str = "../target/test-tools/claude/node_modules/.bin/claude";

/// Starts a server, and writes down that it has.
const SERVER: &str = r#"
import json, sys
open(sys.argv[1] + "/starts", "a").write(sys.argv[2] + "\n")
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        answer = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": answer}
        if asked["method"] != "initialize":
            answer = {"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "no"}}
        print(json.dumps(answer), flush=True)
"#;

#[test]
fn real_claude_code_starts_a_server_of_a_plugin_once() {
    let home = Home::new();
    home.write("server.py", SERVER);
    let place = home.0.path().display().to_string();
    let server = |name: &str| {
        format!(r#"{{"command": "python3", "args": ["{place}/server.py", "{place}", "{name}"]}}"#)
    };
    home.write(
        "m/.claude-plugin/marketplace.json",
        r#"{"name": "m", "owner": {"name": "o"}, "plugins": [{"name": "p", "source": "./p"}]}"#,
    );
    home.write(
        "m/p/.claude-plugin/plugin.json",
        &format!(
            r#"{{"name": "p", "version": "1.0.0", "mcpServers": {{"inline": {}}}}}"#,
            server("inline")
        ),
    );
    home.write(
        "m/p/.mcp.json",
        &format!(r#"{{"mcpServers": {{"file": {}}}}}"#, server("file")),
    );
    let claude = |words: &[&str]| {
        let mut claude = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join(CLAUDE));
        claude
            .args(words)
            .env("HOME", home.0.path())
            .env_remove("CLAUDE_CONFIG_DIR");
        claude.env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
        let output = claude.current_dir(home.path("")).output().expect("claude");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{words:?}: {said}");
        said
    };
    claude(&[
        "plugin",
        "marketplace",
        "add",
        &home.path("m").display().to_string(),
    ]);
    claude(&["plugin", "install", "p@m"]);
    for (name, starts) in [("a", "inline"), ("b", "file"), ("c", "other")] {
        claude(&["mcp", "add-json", "-s", "user", name, &server(starts)]);
    }
    let starts = || {
        let said = claude(&["mcp", "list"]);
        let mut starts: Vec<_> = home.read("starts").lines().map(str::to_owned).collect();
        fs::remove_file(home.path("starts")).unwrap();
        starts.sort();
        (starts, said)
    };
    let (before, _) = starts();
    assert_eq!(before, ["file", "inline", "other"]);
    let said = home.says(&["--host", "claude-code"]);
    for part in [
        "mcpServers › a is in the plugin p@m › inline too",
        "mcpServers › b is in the plugin p@m › file too",
        "p@m › inline is a plugin's, and stays as it is",
        "Wrapped 1 server",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let (after, said) = starts();
    assert_eq!(after, before, "{said}");
    assert!(said.contains(PROGRAM), "{said}");
    let _ = home.says(&["--undo", "--host", "claude-code"]);
}
