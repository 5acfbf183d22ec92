//! Options that say what the server gets.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::host::{Alive, Server, Streams, wrapped};

fn executable(path: &Path, text: &str) {
    mcp_lifecycle_conformance::copies::script(path, text, 0o755).unwrap();
}

/// A home with a program that only the login shell's `PATH` has.
fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("own")).unwrap();
    let tool = home.path().join("own/mcp-server-hidden");
    executable(&tool, "#!/bin/sh\ncommand -v mcp-server-hidden >&2\n");
    home
}

fn ended(command: &mut Command) -> (Option<i32>, String) {
    let (status, said) = Server::start(command, Streams::Pipes).ended();
    (status.code(), said)
}

#[test]
fn the_path_of_the_login_shell_finds_the_program_and_is_the_servers() {
    let home = home();
    let own = home.path().join("own");
    let profile = format!(
        "echo noise; PATH='{}':$PATH; export PATH; sleep 1000 &\n",
        own.display()
    );
    fs::write(home.path().join(".profile"), &profile).unwrap();
    // A shell that does what its options say, and nothing else.
    let fake = home.path().join("shell");
    executable(
        &fake,
        &format!(
            "#!/bin/sh\n[ \"$1\" = -ilc ] || exit 9\nPATH='{}':$PATH; export PATH\necho noise\nexec sh -c \"$2\"\n",
            own.display()
        ),
    );
    let mut shells = vec![fake];
    shells.extend(Path::new("/bin/bash").exists().then(|| "/bin/bash".into()));
    for shell in shells {
        let command = |words: &[&str]| {
            let mut command = wrapped(words);
            command.env("HOME", home.path()).env("SHELL", &shell);
            command
        };
        let (code, _) = ended(&mut command(&["mcp-server-hidden"]));
        assert_eq!(code, Some(127), "the host's PATH does not have it");
        let (code, said) = ended(&mut command(&["--path", "login", "mcp-server-hidden"]));
        let found = format!("{}/mcp-server-hidden\n", own.display());
        assert_eq!((code, said), (Some(0), found), "{}", shell.display());
    }
}

#[test]
fn a_shell_that_does_not_answer_costs_its_time_and_no_server() {
    let home = home();
    let deaf = home.path().join("deaf");
    executable(&deaf, "#!/bin/sh\nprintf mcp-; exec sleep 1000\n");
    let mute = home.path().join("mute");
    executable(&mute, "#!/bin/sh\nexit 0\n");
    let missing = home.path().join("missing");
    for (shell, least) in [(deaf, 5), (mute, 0), (missing, 0)] {
        let started = Instant::now();
        let mut command = wrapped(&["--path", "login", "sh", "-c", "exit 6"]);
        let (code, said) = ended(command.env("SHELL", &shell));
        assert_eq!(code, Some(6), "{said}");
        assert!(
            said.starts_with("mcp-contain: the PATH is the host's: "),
            "{said}"
        );
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(started.elapsed() >= Duration::from_secs(least));
    }
}

#[test]
fn a_shell_that_is_asked_ends_with_the_wrapper() {
    // What a shell's files start ends with its group; a killed wrapper ends nobody but the shell.
    for (signal, helper) in [
        (Signal::SIGTERM, "sleep 1000 &"),
        (Signal::SIGINT, "sleep 1000 &"),
        (Signal::SIGKILL, ""),
    ] {
        let mut alive = Alive::new();
        let shell = alive.file("shell");
        let script = alive.script(&format!("{helper}\nprintf . >&9; read never <&8"));
        executable(&shell, &format!("#!/bin/sh\n{script}\n"));
        let mut command = wrapped(&["--path", "login", "sh", "-c", "exit 6"]);
        let server = Server::start(command.env("SHELL", &shell), Streams::Pipes);
        alive.ready(1);
        server.signal(signal);
        let (status, said) = server.ended();
        assert_eq!(status.signal(), Some(signal as i32), "{said}");
        alive.nobody_is_left();
    }
}

#[test]
fn the_log_gets_standard_error_at_its_end_and_the_host_none() {
    let alive = Alive::new();
    let log = alive.file("server.log");
    let log_name = log.to_str().unwrap();
    let words = ["--log", log_name, "sh", "-c", "echo to the log >&2; exit 3"];
    for _ in 0..2 {
        assert_eq!(ended(&mut wrapped(&words)), (Some(3), String::new()));
    }
    assert_eq!(
        fs::read_to_string(&log).unwrap(),
        "to the log\nto the log\n"
    );
    let mode = fs::metadata(&log).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it may hold secrets");
    // What the wrapper itself has to say is for the host.
    let (code, said) = ended(&mut wrapped(&["--log", log_name, "no-such-program"]));
    assert_eq!((code, said.lines().count()), (Some(127), 1), "{said}");
}

#[test]
fn a_long_log_is_moved_aside_before_the_start() {
    let alive = Alive::new();
    let log = alive.file("server.log");
    let long = vec![b'x'; (10 << 20) + 1];
    for (before, after) in [(&long[1..], false), (&long, true)] {
        fs::write(&log, before).unwrap();
        let words = ["--log", log.to_str().unwrap(), "sh", "-c", "echo new >&2"];
        assert_eq!(ended(&mut wrapped(&words)), (Some(0), String::new()));
        let aside = fs::read(alive.file("server.log.1"));
        let expected = match after {
            true => b"new\n".to_vec(),
            false => [before, b"new\n"].concat(),
        };
        assert!(fs::read(&log).unwrap() == expected);
        assert_eq!(aside.ok().map(|it| it == long), after.then_some(true));
    }
}

#[test]
fn a_log_that_cannot_be_one_is_refused_and_waits_for_nobody() {
    let alive = Alive::new();
    symlink(alive.file("missing/file"), alive.file("dangling")).unwrap();
    // The FIFO has a reader, and another has none.
    nix::unistd::mkfifo(&alive.file("unread"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for name in ["alive", "unread", "dangling", "missing/file", "."] {
        let log = alive.file(name);
        let words = ["--log", log.to_str().unwrap(), "sh", "-c", "exit 3"];
        let (code, said) = ended(&mut wrapped(&words));
        assert_eq!(
            (code, said.lines().count()),
            (Some(125), 1),
            "{name}: {said}"
        );
        assert!(said.contains(log.to_str().unwrap()), "{said}");
    }
}
