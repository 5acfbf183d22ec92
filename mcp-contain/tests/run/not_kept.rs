//! Who does not stay, although somebody does.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};

use crate::host::{Alive, DEADLINE, Server, Streams, wrapped};
use crate::keep::killed;

/// A user that is not root, and whom nobody shares.
const USER: u32 = 61_834;

/// Runs a command as [`USER`], where `/proc` shows nobody what he may not read.
fn where_proc_hides(command: &[&str]) -> Option<Command> {
    let hide = |words: &[&str]| {
        let hide = "mount -t proc -o hidepid=2 proc /proc && exec setpriv --reuid=\"$0\" --regid=\"$0\" --clear-groups \"$@\"";
        let mut unshare = Command::new("unshare");
        let user = USER.to_string();
        unshare
            .args(["--mount", "sh", "-c", hide, &user])
            .args(words);
        unshare
    };
    let can = geteuid().is_root() && hide(&["true"]).status().is_ok_and(|it| it.success());
    if !can {
        println!("NOT TESTED: hiding processes takes root, and a mount namespace");
        return None;
    }
    Some(hide(command))
}

#[test]
fn a_child_that_proc_hides_is_not_taken_for_one_that_stays() {
    let (mut alive, mut kept) = (Alive::new(), Alive::new());
    for place in [&alive, &kept] {
        for name in ["", "alive"] {
            chown(place.file(name), Some(USER), Some(USER)).unwrap_or(());
        }
    }
    // Whose program its user cannot read is hidden from him.
    for (name, mode) in [
        ("hidden-sh", 0o711),
        ("kept-sh", 0o755),
        ("mcp-contain", 0o755),
    ] {
        let program = match name {
            "mcp-contain" => env!("CARGO_BIN_EXE_mcp-contain"),
            _ => "/bin/sh",
        };
        fs::copy(program, alive.file(name)).unwrap();
        fs::set_permissions(alive.file(name), fs::Permissions::from_mode(mode)).unwrap();
        chown(alive.file(name), Some(0), Some(0)).unwrap_or(());
    }
    let path = |name: &str| alive.file(name).display().to_string();
    let wait = "printf . >&9; read never <&8";
    let with_pid = kept.script(&format!("echo $$ >pid; {wait}"));
    fs::write(alive.file("stays"), with_pid).unwrap();
    fs::write(alive.file("hides"), alive.script(wait)).unwrap();
    let background = "</dev/null >/dev/null 2>&1 &";
    let script = format!(
        "'{}' '{}' {background} '{}' '{}' {background} read line; :",
        path("kept-sh"),
        path("stays"),
        path("hidden-sh"),
        path("hides"),
    );
    let (wrapper, state) = (
        path("mcp-contain"),
        format!("MCP_LIFECYCLE_STATE_DIR={}", path("state")),
    );
    let words = [
        "env", &state, &wrapper, "--grace", "20s", "--keep", "kept-*", "sh", "-c", &script,
    ];
    let Some(mut command) = where_proc_hides(&words) else {
        return;
    };
    let mut server = Server::start(&mut command, Streams::Pipes);
    alive.ready(1);
    kept.ready(1);
    server.stdin = None;
    let (status, said) = server.ended();
    assert!(status.success(), "{status}: {said}");
    alive.nobody_is_left();
    assert!(kept.somebody_is_left(), "it stays");
    let pid = fs::read_to_string(kept.file("pid")).unwrap();
    kill(Pid::from_raw(pid.trim().parse().unwrap()), Signal::SIGKILL).unwrap();
    kept.nobody_is_left();
}

/// A server that its guardian's death does not end, of a name that is kept.
#[test]
fn a_server_of_a_kept_name_is_no_daemon_that_stays() {
    let state = tempfile::tempdir().unwrap();
    fs::set_permissions(state.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let mut alive = Alive::new();
    let (name, script) = (alive.file("kept-name"), alive.file("script"));
    fs::copy("/bin/sh", &name).unwrap();
    fs::write(&script, alive.script("printf . >&9; read never <&8")).unwrap();
    let (name, script) = (name.display(), script.display());
    let line = format!("exec setpriv --pdeathsig clear '{name}' '{script}'");
    let mut command = wrapped(&["--keep", "kept-*", "sh", "-c", &line]);
    command.env("MCP_LIFECYCLE_STATE_DIR", state.path());
    let mut server = Server::start(&mut command, Streams::Pipes);
    alive.ready(1);
    let shim = server.pid();
    let children = fs::read_to_string(format!("/proc/{shim}/task/{shim}/children")).unwrap();
    let guardian: i32 = children.trim().parse().unwrap();
    let children = fs::read_to_string(format!("/proc/{guardian}/task/{guardian}/children"));
    let own = children.unwrap().trim().to_owned();
    wait_until_recorded(state.path(), &own);
    server.signal(Signal::SIGSTOP);
    killed(guardian);
    server.signal(Signal::SIGKILL);
    server.child.wait().unwrap();
    let mut reap = Command::new(env!("CARGO_BIN_EXE_mcp-contain"));
    reap.args(["reap", "--verbose"])
        .env("MCP_LIFECYCLE_STATE_DIR", state.path());
    let output = reap.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    assert!(said.contains("(kept-name)"), "{said}");
    assert!(!said.contains(&format!("spared: process {own} ")), "{said}");
    alive.nobody_is_left();
}

/// The server runs a moment before its wrapper has written its pid into the ledger.
fn wait_until_recorded(state: &Path, pid: &str) {
    let until = Instant::now() + DEADLINE;
    let holds = |entry: io::Result<fs::DirEntry>| {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap_or_default();
        text.split_whitespace().any(|word| word == pid)
    };
    while !fs::read_dir(state).unwrap().any(holds) {
        assert!(Instant::now() < until, "{pid} is not recorded");
        thread::yield_now();
    }
}
