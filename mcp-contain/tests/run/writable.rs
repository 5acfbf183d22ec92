//! `--write`: what a server and its descendants may write, as root and as another user.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use mcp_guardian::hardened;
use mcp_lifecycle_conformance::copies::script;
use nix::sys::stat::Mode;
use nix::unistd::{geteuid, mkfifo};

use crate::host::{Server, Streams, in_time};

const NOBODY: u32 = 65534;
const DENIED: &str = "Permission denied";
const ACROSS: &str = "Invalid cross-device link";

/// Commands of a server that may write below `in`, and why each fails; none if it succeeds.
const TRIES: [(&str, &str); 27] = [
    ("echo new >in/new", ""),
    (
        "mkdir in/a in/b && echo >in/a/file && mv in/a/file in/b/file",
        "",
    ),
    ("ln in/new in/linked && rm in/linked && rmdir in/a", ""),
    ("truncate -s 9 in/new && mkfifo in/fifo", ""),
    ("echo new >out/new", DENIED),
    ("echo new >>out/file", DENIED),
    (": >out/file", DENIED),
    ("truncate -s 0 out/file", DENIED),
    ("mkdir out/directory", DENIED),
    ("ln -s file out/symlink", DENIED),
    ("rm out/file", DENIED),
    ("rmdir out/empty", DENIED),
    ("mv out/file out/other", DENIED),
    ("mv out/file in/moved", DENIED),
    ("mv in/new out/moved", DENIED),
    ("ln out/file in/hard", ACROSS),
    ("ln in/new out/hard", DENIED),
    ("ln -s \"$PWD/out\" in/way", ""),
    ("echo new >in/way/new", DENIED),
    ("echo new >in/way/file", DENIED),
    ("setsid sh -c '(echo new >out/new) & wait $!'", DENIED),
    ("echo new >/tmp/mcp-contain-writes-here", DENIED),
    ("mknod in/device b 7 0", "ermi"),
    ("cat out/file && ls out && cat /etc/passwd", ""),
    ("echo >/dev/null && echo >/dev/zero", ""),
    (
        "echo >/dev/shm/mcp-contain-$$ && rm /dev/shm/mcp-contain-$$",
        "",
    ),
    ("echo >/dev/stderr", ""),
];

/// A directory of this user, or of another one.
struct Place {
    directory: tempfile::TempDir,
    user: Option<u32>,
}

impl Place {
    fn new(user: Option<u32>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        for name in ["", "in", "out", "out/empty"] {
            let _ = fs::create_dir(path.join(name));
            chown(path.join(name), user, user).unwrap();
        }
        fs::write(path.join("out/file"), "old").unwrap();
        chown(path.join("out/file"), user, user).unwrap();
        let mut text = "exec 3>in/said; LC_ALL=C; export LC_ALL\n".to_owned();
        for (at, (command, _)) in TRIES.iter().enumerate() {
            // In a shell of its own: a redirection that fails ends one.
            let command = command.replace('\'', r"'\''");
            text += &format!(
                "sh -c '{command}' >/dev/null 2>in/why && echo {at} >&3 || echo {at} $(cat in/why) >&3\n"
            );
        }
        script(&path.join("server"), &format!("#!/bin/sh\n{text}"), 0o755).unwrap();
        // What was built may lie where only its owner may enter.
        fs::copy(env!("CARGO_BIN_EXE_mcp-contain"), path.join("mcp-contain")).unwrap();
        mkfifo(&path.join("in/said"), Mode::from_bits_truncate(0o666)).unwrap();
        chown(path.join("in/said"), user, user).unwrap();
        Self { directory, user }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.directory.path().join("mcp-contain"));
        command.args(words).current_dir(self.directory.path());
        command.env("HOME", self.directory.path());
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
    }

    /// Runs the server until all of it has ended. Returns what it could not do.
    fn tried(&self, options: &[&str]) -> String {
        let words = [options, &["./server"]].concat();
        let mut server = Server::start(&mut self.command(&words), Streams::Pipes);
        let mut stdin = server.stdin.take().unwrap();
        // A relay starts its server for a request.
        let request = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        let _ = writeln!(stdin, "{request}");
        let fifo = self.directory.path().join("in/said");
        let said = in_time(move || {
            let mut said = String::new();
            File::open(fifo).unwrap().read_to_string(&mut said).unwrap();
            said
        });
        drop(stdin);
        let (_, errors) = server.ended();
        let mut lines = said.lines();
        for (at, (command, why)) in TRIES.iter().enumerate() {
            let line = lines.next().unwrap_or_default();
            let result = line.strip_prefix(&at.to_string()).unwrap_or("none").trim();
            let is_expected = result.is_empty() == why.is_empty() && result.contains(why);
            assert!(is_expected, "{options:?} {command}: `{result}` {errors}");
        }
        errors
    }

    fn is_unchanged_outside(&self) {
        let out = self.directory.path().join("out");
        assert_eq!(fs::read_to_string(out.join("file")).unwrap(), "old");
        assert_eq!(fs::read_dir(&out).unwrap().count(), 2);
        assert!(!Path::new("/tmp/mcp-contain-writes-here").exists());
    }
}

fn users() -> Vec<Option<u32>> {
    match geteuid().is_root() {
        true => vec![None, Some(NOBODY)],
        false => vec![None],
    }
}

#[test]
fn a_server_writes_only_what_it_was_given() {
    if let Some(why) = hardened::refusal(false, true) {
        return println!("NOT TESTED: {why}");
    }
    let mut levels = vec![
        &["--write", "in"][..],
        &["--log", "log", "--write", "in"],
        &["--require", "pidns", "--write", "in"],
        &["--restart", "--write", "in"],
        &["--lazy", "--write", "in"],
    ];
    match hardened::refusal(true, false) {
        None => levels.push(&["--hardened", "--write", "in"]),
        Some(why) => println!("NOT TESTED: --hardened: {why}"),
    }
    for user in users() {
        for options in &levels {
            let place = Place::new(user);
            place.tried(options);
            place.is_unchanged_outside();
        }
    }
}

#[test]
fn a_limit_and_a_list_hold_together() {
    let place = Place::new(None);
    let options = ["--pids", "50", "--write", "in"];
    let (status, said) = ended(&mut place.command(&[&options[..], &["true"]].concat()));
    if status == Some(125) {
        // The machine has no such limit, or no such rules: nothing less is started.
        let is_refused = said.contains("cannot be limited") || said.contains("Landlock");
        assert!(is_refused, "{said}");
        return println!("NOT TESTED: {said}");
    }
    place.tried(&options);
    place.is_unchanged_outside();
}

fn ended(command: &mut Command) -> (Option<i32>, String) {
    let (status, said) = Server::start(command, Streams::Pipes).ended();
    (status.code(), said)
}

#[test]
fn a_path_that_is_missing_is_named_and_not_made() {
    let place = Place::new(None);
    let words = ["--write", "in", "--write", "in/missing", "true"];
    let (code, said) = ended(&mut place.command(&words));
    assert_eq!((code, said.lines().count()), (Some(125), 1), "{said}");
    let is_refused = said.contains("`in/missing`") || said.contains("Landlock");
    assert!(is_refused, "{said}");
    assert!(!place.directory.path().join("in/missing").exists());
    let (code, said) = ended(&mut place.command(&["--group", "--write", "in", "true"]));
    assert!(code != Some(0) && said.contains("--group"), "{said}");
}

#[test]
fn a_file_is_written_and_nothing_beside_it() {
    if hardened::refusal(false, true).is_some() {
        return println!("NOT TESTED: no Landlock");
    }
    let place = Place::new(None);
    let try_both = "echo x >out/file && ! echo x >out/new && ! rm out/file";
    let words = ["--write", "out/file", "sh", "-c", try_both];
    let (code, said) = ended(&mut place.command(&words));
    assert_eq!(code, Some(0), "{said}");
}

/// The attempts of a runner, or of a package that it has executed.
const USUAL: &str = r#"for it in . "$TMPDIR" "$HOME/.npm" "$HOME/.cache/uv" "$HOME/.local/share/uv" "$HOME" "$HOME/.cache/mcp-contain/direct"; do
    (echo >"$it/written") 2>&- && echo "${it#"$HOME"/}"
done >&2"#;

#[test]
fn default_is_the_directory_the_temporary_one_and_those_of_the_runner() {
    if hardened::refusal(false, true).is_some() {
        return println!("NOT TESTED: no Landlock");
    }
    for user in users() {
        let place = Place::new(user);
        let home = place.directory.path();
        let [npx, uvx, other]: [PathBuf; 3] = ["npx", "uvx", "other"].map(|it| home.join(it));
        for runner in [&npx, &uvx, &other] {
            script(runner, &format!("#!/bin/sh\n{USUAL}"), 0o755).unwrap();
        }
        fs::create_dir(home.join("tmp")).unwrap();
        chown(home.join("tmp"), user, user).unwrap();
        let said = |runner: &Path, directory: &str| {
            let words = ["--write", "default", runner.to_str().unwrap()];
            let mut command = place.command(&words);
            command.env("TMPDIR", home.join("tmp"));
            for unset in [
                "npm_config_cache",
                "UV_CACHE_DIR",
                "XDG_CACHE_HOME",
                "XDG_DATA_HOME",
            ] {
                command.env_remove(unset);
            }
            ended(command.current_dir(home.join(directory))).1
        };
        assert_eq!(said(&npx, "in"), ".\ntmp\n.npm\n");
        assert_eq!(said(&uvx, "in"), ".\ntmp\n.cache/uv\n.local/share/uv\n");
        assert_eq!(said(&other, "in"), ".\ntmp\n");
        // A host on a desktop starts its servers there.
        for directory in ["", "/"] {
            let said = said(&npx, directory);
            assert!(said.contains("name directories instead"), "{said}");
        }
    }
}
