//! Who is to stay when a server ends.

use std::fs;
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use mcp_lifecycle_conformance::copies;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::process::{PidfdFlags, pidfd_open};
use serde_json::Value;

use crate::host::{Alive, DEADLINE, Server, Streams, wrapped};

/// A daemon with a child below it, which both hold its own FIFO.
struct Daemon {
    alive: Alive,
    path: String,
}

impl Daemon {
    fn new() -> Self {
        let alive = Alive::new();
        // SIGTERM would end it, and no second one is waited for.
        let script = alive.script(
            "echo $$ >>pids; sh -c 'echo $$ >>pids; printf . >&9; read never <&8' &\nprintf . >&9; read never <&8",
        );
        let path = alive.file("kept-daemon");
        copies::script(&path, &format!("#!/bin/sh\n{script}\n"), 0o755).unwrap();
        let path = path.display().to_string();
        Self { alive, path }
    }

    /// It is there, with its child, and in no cgroup of a server's.
    fn is_whole(&mut self) {
        assert!(self.alive.somebody_is_left(), "it stays");
        for pid in self.pids() {
            assert!(fs::exists(format!("/proc/{pid}")).unwrap(), "{pid} stays");
            let cgroups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
            assert!(!cgroups.contains("/mcp-"), "{cgroups}");
        }
    }

    /// So says `ps`, of it and of nobody above it.
    fn is_listed_as_kept(&self) {
        let ps = |words: &[&str]| wrapped(words).output().unwrap().stdout;
        let seen: Value = serde_json::from_slice(&ps(&["ps", "--json"])).unwrap();
        let servers = seen["servers"].as_array().unwrap();
        let processes = servers
            .iter()
            .flat_map(|it| it["processes"].as_array().unwrap());
        let kept = processes.filter(|it| it["kept"] == true);
        let kept: Vec<_> = kept.map(|it| it["pid"].as_i64().unwrap() as i32).collect();
        assert!(self.pids().iter().all(|pid| kept.contains(pid)), "{seen:#}");
        let table = String::from_utf8(ps(&["ps"])).unwrap();
        assert!(table.contains("nothing: kept"), "{table}");
    }

    fn pids(&self) -> Vec<i32> {
        let text = fs::read_to_string(self.alive.file("pids")).unwrap();
        let pids: Vec<_> = text.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(pids.len(), 2, "{text}");
        pids
    }

    fn end(mut self) {
        for pid in self.pids() {
            kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
        }
        self.alive.nobody_is_left();
    }
}

/// Kills a process, and waits until it holds nothing more: whoever looks then finds no lock of it.
pub(crate) fn killed(pid: i32) {
    let process = rustix::process::Pid::from_raw(pid).unwrap();
    let held = pidfd_open(process, PidfdFlags::empty()).unwrap();
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    let mut fds = [PollFd::new(held.as_fd(), PollFlags::POLLIN)];
    let limit = PollTimeout::try_from(DEADLINE).unwrap();
    assert_eq!(poll(&mut fds, limit), Ok(1), "{pid} does not end");
}

/// A server with the daemon in its own group, another one in a session, and others who are not to stay.
fn server(alive: &Alive, daemon: &Daemon, more: &str) -> Server {
    let path = &daemon.path;
    let script = alive.script(&format!(
        "{path} </dev/null >/dev/null 2>&1 & setsid sh -c 'printf . >&9; read never <&8' & trap '' TERM; printf . >&9; {more}"
    ));
    let words = [
        "--grace", "200ms", "--keep", "nobody", "--keep", "kept-*", "sh", "-c", &script,
    ];
    Server::start(&mut wrapped(&words), Streams::Pipes)
}

fn stays(more: &str, end: impl Fn(&mut Server)) {
    each(more, end).end();
}

fn each(more: &str, end: impl Fn(&mut Server)) -> Daemon {
    let (mut alive, mut daemon) = (Alive::new(), Daemon::new());
    let mut server = server(&alive, &daemon, more);
    alive.ready(2);
    daemon.alive.ready(2);
    end(&mut server);
    server.ended();
    alive.nobody_is_left();
    daemon.is_whole();
    daemon
}

const DEAF: &str = "while :; do read never <&8; done";

#[test]
fn who_is_kept_survives_the_end_of_input_and_is_listed() {
    let daemon = each(DEAF, |server| server.stdin = None);
    daemon.is_listed_as_kept();
    daemon.end();
}

#[test]
fn who_is_kept_survives_sigterm_and_sigint_to_the_servers_group() {
    stays(DEAF, |server| server.signal(Signal::SIGTERM));
    stays(DEAF, |server| server.signal(Signal::SIGINT));
}

#[test]
fn who_is_kept_survives_the_servers_own_end() {
    stays("read line", |server| server.stdin = None);
}

#[test]
fn who_is_kept_survives_a_killed_shim() {
    stays(DEAF, |server| server.signal(Signal::SIGKILL));
}

#[test]
fn who_is_kept_is_spared_by_reap_when_shim_and_guardian_were_killed() {
    let state = tempfile::tempdir().unwrap();
    fs::set_permissions(state.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let (mut alive, mut daemon) = (Alive::new(), Daemon::new());
    let path = &daemon.path;
    let script = alive.script(&format!(
        "{path} </dev/null >/dev/null 2>&1 & setsid sh -c 'printf . >&9; read never <&8' & printf . >&9; {DEAF}"
    ));
    let mut command = wrapped(&["--keep", "kept-*", "sh", "-c", &script]);
    let mut server = Server::start(
        command.env("MCP_LIFECYCLE_STATE_DIR", state.path()),
        Streams::Pipes,
    );
    alive.ready(2);
    daemon.alive.ready(2);
    let shim = server.pid();
    let children = fs::read_to_string(format!("/proc/{shim}/task/{shim}/children")).unwrap();
    let guardian: i32 = children.trim().parse().unwrap();
    server.signal(Signal::SIGKILL);
    killed(guardian);
    server.child.wait().unwrap();
    let mut reap = Command::new(env!("CARGO_BIN_EXE_mcp-contain"));
    let said = reap
        .args(["reap", "--verbose"])
        .env("MCP_LIFECYCLE_STATE_DIR", state.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&said.stdout);
    println!("{said}");
    alive.nobody_is_left();
    assert!(
        said.contains("spared: process") && said.contains("kept-daemon"),
        "{said}"
    );
    assert!(daemon.alive.somebody_is_left(), "it stays");
    daemon.end();
}

#[test]
fn a_pattern_that_means_the_server_is_refused() {
    let words = ["--keep", "s?", "sh", "-c", "exit 3"];
    let server = Server::start(&mut wrapped(&words), Streams::Pipes);
    let (status, said) = server.ended();
    assert_eq!(status.code(), Some(125), "{said}");
    assert!(said.contains("s? means the server itself"), "{said}");
}
