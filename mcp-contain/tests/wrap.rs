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
        again.contains("No server was found that is not wrapped yet"),
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
    assert!(undone.contains("one by one"), "{undone}");
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
    assert_eq!(
        home.read(".codex/config.toml.before-mcp-contain-undo"),
        again
    );
    assert_eq!(home.read(backup), "cut = [short");
}

#[test]
fn what_undo_takes_out_without_a_backup_is_kept_and_an_older_backup_too() {
    let home = Home::new();
    let by_hand = "{\"mcpServers\": {\"a\": {\"command\": \"mcp-contain\", \"args\": [\"--grace\", \"20s\", \"npx\"]}}}";
    home.write(".cursor/mcp.json", by_hand);
    let undone = home.says(&["--undo", "--host", "cursor"]);
    assert!(
        undone.contains("there is no backup") && !undone.contains("changed since"),
        "{undone}"
    );
    assert_eq!(
        home.read(".cursor/mcp.json.before-mcp-contain-undo"),
        by_hand
    );

    home.says(&["--host", "codex"]);
    let changed = home.read(".codex/config.toml") + "# more\n";
    home.write(".codex/config.toml", &changed);
    home.says(&["--undo", "--host", "codex"]);
    home.says(&["--host", "codex"]);
    assert_eq!(home.read(".codex/config.toml.before-mcp-contain.1"), CODEX);
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
