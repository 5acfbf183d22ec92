//! Direct start: programs in the place of npm and uv count how often they run.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Executes the package as npm does, which stays.
const NPX: &str = r#"echo >>"$HOME/runs"
[ -z "$NPM_SETS" ] || export "$NPM_SETS"
export PATH="$HOME/cache/node_modules/.bin:$PATH" npm_lifecycle_event=npx npm_config_yes=true
shift
script="'server'"
for word; do script="$script '$word'"; done
"${npm_config_script_shell:-sh}" -c "$script"
exit $?"#;

/// Executes a program in the environment of the package as uv does, which stays.
const UVX: &str = r#"echo >>"$HOME/runs"
export PATH="$HOME/cache/bin:$PATH" UV="$HOME/bin/uvx"
case $1 in --from) shift 2 ;; esac
command -v "$1" >/dev/null || { echo "no such program: $1" >&2; exit 3; }
"$@"
exit $?"#;

const SERVER: &str = r#"printf '[%s]\n' "$0" "$@" "$(pwd)" "$TOKEN"
env | grep -v -e '^MCP_LIFECYCLE_ID=' -e '^_=' -e '^SHLVL=' -e '^OLDPWD=' | sort
exit 7"#;

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        for (path, text) in [
            ("bin/npx", NPX),
            ("bin/uvx", UVX),
            ("cache/node_modules/.bin/server", SERVER),
            ("cache/bin/server", SERVER),
        ] {
            home.program(path, text);
        }
        fs::create_dir(home.path("work")).unwrap();
        home
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(path)
    }

    fn program(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcp-contain"));
        let path = format!("{}:/usr/bin:/bin", self.path("bin").display());
        command.args(line.split(' ')).env_clear();
        command.env("HOME", self.path("")).env("PATH", path);
        command.env("TOKEN", "0123456789abcdef0123");
        command.current_dir(self.path("work"));
        command
    }

    /// Returns the output and whether the runner has run.
    fn run(&self, command: &mut Command) -> (Output, bool) {
        let output = command.output().unwrap();
        let has_run = fs::remove_file(self.path("runs")).is_ok();
        (output, has_run)
    }

    fn runs(&self, line: &str) -> bool {
        self.run(&mut self.command(line)).1
    }

    fn records(&self) -> Vec<String> {
        let files = fs::read_dir(self.path(".cache/mcp-contain/direct")).unwrap();
        files
            .map(|it| fs::read_to_string(it.unwrap().path()).unwrap())
            .collect()
    }
}

#[test]
fn a_package_is_executed_again_as_its_runner_did() {
    let home = Home::new();
    for line in [
        "npx server --key hidden -- x",
        "uvx server --key hidden -- x",
        "uvx --from other server a",
    ] {
        let bare = home.run(&mut home.command(&format!("--no-direct {line}")));
        let first = home.run(&mut home.command(line));
        let second = home.run(&mut home.command(line));
        let has_run = [&bare, &first, &second].map(|(_, has_run)| *has_run);
        assert_eq!(has_run, [true, true, false], "{line}: {first:?}");
        for (output, _) in [&first, &second] {
            assert_eq!(output.status.code(), Some(7));
            let (one, other) = (&bare.0.stdout, &output.stdout);
            assert_eq!(
                String::from_utf8_lossy(one),
                String::from_utf8_lossy(other),
                "{line}"
            );
        }
        // Once: silence is taken for a hang.
        let said = [&bare.0, &first.0, &second.0]
            .map(|it| String::from_utf8_lossy(&it.stderr).lines().count());
        assert_eq!(said, [0, 1, 0], "{line}");
    }
    let records = home.records();
    assert_eq!(records.len(), 3);
    for record in records {
        assert!(
            !record.contains("hidden") && !record.contains("0123456789abcdef"),
            "{record}"
        );
    }
}

#[test]
fn a_change_has_the_runner_run_again() {
    let home = Home::new();
    let line = "npx server";
    type Change<'a> = &'a dyn Fn();
    let changes: [(&str, Change<'_>); 6] = [
        ("settings of the project", &|| {
            fs::write(home.path("work/.npmrc"), "").unwrap()
        }),
        ("settings of the user", &|| {
            fs::write(home.path(".npmrc"), "").unwrap()
        }),
        ("a package of the project", &|| {
            fs::create_dir(home.path("work/node_modules")).unwrap()
        }),
        ("the program", &|| {
            home.program("cache/node_modules/.bin/server", SERVER)
        }),
        ("another program beside it", &|| {
            home.program("cache/node_modules/.bin/other", "")
        }),
        ("the runner", &|| home.program("bin/npx", NPX)),
    ];
    assert!(home.runs(line));
    for (what, change) in changes {
        assert!(!home.runs(line), "before: {what}");
        change();
        assert!(home.runs(line), "{what}");
    }
    assert!(!home.runs(line));
    assert!(home.runs("npx server other"), "other arguments");
    assert!(
        home.run(home.command(line).env("TOKEN", "other")).1,
        "another environment"
    );
    assert!(
        home.run(home.command(line).current_dir("/")).1,
        "another directory"
    );
    assert!(home.runs("--direct-age 0s npx server"), "age");
}

#[test]
fn what_is_not_certain_is_not_recorded() {
    let home = Home::new();
    for variable in [
        "NPM_SETS=npm_config_token=x",
        "NPM_SETS=npm_config_call=x",
        "npm_config_script_shell=/bin/sh",
        "NPM_CONFIG_SCRIPT_SHELL=/bin/sh",
    ] {
        let (name, value) = variable.split_once('=').unwrap();
        for _ in 0..2 {
            let (output, has_run) = home.run(home.command("npx server").env(name, value));
            assert!(
                has_run && output.status.code() == Some(7),
                "{variable}: {output:?}"
            );
        }
    }
    fs::write(home.path(".npmrc"), "script-shell=/bin/sh").unwrap();
    assert!(home.runs("npx server") && home.runs("npx server"));
    let with_file = || home.command("uvx server");
    for _ in 0..2 {
        assert!(home.run(with_file().env("UV_ENV_FILE", "x")).1);
    }
}

#[test]
fn the_runner_explains_what_the_package_does_not_have() {
    let home = Home::new();
    for _ in 0..2 {
        let (output, _) = home.run(&mut home.command("uvx --from server missing"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.ends_with("no such program: missing\n"), "{said}");
        assert_eq!(output.status.code(), Some(3));
    }
}

#[test]
fn a_server_with_a_list_of_writes_repeats_a_record_and_makes_none() {
    if mcp_guardian::hardened::refusal(false, true).is_some() {
        return println!("NOT TESTED: no Landlock");
    }
    let home = Home::new();
    fs::create_dir(home.path("tmp")).unwrap();
    for line in ["npx server a", "uvx server a"] {
        let listed = || {
            // The count of runs is kept in the home.
            let mut command = home.command(&format!(
                "--write default --write {} {line}",
                home.path("").display()
            ));
            command.env("TMPDIR", home.path("tmp"));
            home.run(&mut command)
        };
        for _ in 0..2 {
            let (output, has_run) = listed();
            assert!(
                has_run && output.status.code() == Some(7),
                "{line}: {output:?}"
            );
        }
        assert!(
            home.run(home.command(line).env("TMPDIR", home.path("tmp")))
                .1
        );
        let (output, has_run) = listed();
        assert!(
            !has_run && output.status.code() == Some(7),
            "{line}: {output:?}"
        );
    }
}
