//! The host dies, and takes no destructor along.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::fd::AsFd as _;
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::lab::{Alive, DEADLINE, Guarded, Options, play};

const SCRIPT: &str = "MCP_TEST_SCRIPT";
const SHARE: &str = "MCP_TEST_SHARE_CONTROL";
const KILLER: &str = "MCP_TEST_KILLER";
const FIFO: &str = "MCP_TEST_FIFO";
const STUBBORN: &str = "trap '' TERM; S='printf . >&9; while :; do sleep 3600; done'; sh -c \"$S\" & (setsid sh -c \"$S\" &); eval \"$S\"";

/// A host: starts the script of its environment, says the guardian's pid, and waits to be killed.
#[test]
#[ignore = "a role"]
fn host() {
    let Ok(script) = std::env::var(SCRIPT) else {
        return;
    };
    let server = Guarded::sh(&script, &Options::default());
    server.started();
    let mut copy = None;
    if std::env::var_os(SHARE).is_some() {
        // As a forked copy of the host would: somebody else holds this end of the control socket, and keeps it.
        fcntl(server.handle.control(), FcntlArg::F_SETFD(FdFlag::empty())).expect("fcntl");
        let reader = Command::new("/bin/sh")
            .args(["-c", "trap '' HUP; read never"])
            .spawn()
            .expect("spawn");
        fcntl(
            server.handle.control(),
            FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC),
        )
        .expect("fcntl");
        copy = Some(reader);
    }
    println!("\nguardian {}", server.handle.pid());
    // Ended by the end of the test, should that forget to kill.
    let _ = std::io::stdin().read(&mut [0]);
    drop((server, copy));
}

/// Kills a host that runs `script` when all of its `processes` are ready.
fn kill_host(script: &str, processes: usize, variables: &[(&str, &OsStr)]) {
    // The orphaned guardian becomes ours, so that its exit is an event here and not a guess.
    nix::sys::prctl::set_child_subreaper(true).expect("prctl");
    let mut alive = Alive::new();
    let script = alive.script(script);
    let variables: Vec<_> = variables
        .iter()
        .copied()
        .chain([(SCRIPT, OsStr::new(&script))])
        .collect();
    let mut host = play("host_death::host", &variables);
    let mut lines = BufReader::new(host.stdout.take().expect("piped")).lines();
    let guardian = loop {
        let line = lines.next().expect("the host says the pid").expect("text");
        if let Some(pid) = line.strip_prefix("guardian ") {
            break Pid::from_raw(pid.parse().expect("a pid"));
        }
    };
    alive.ready(processes);
    host.kill().expect("kill");
    alive.nobody_is_left();
    host.wait().expect("wait");
    let (exited, exit) = mpsc::channel();
    std::thread::spawn(move || exited.send(waitpid(guardian, None)));
    let status = exit.recv_timeout(DEADLINE).expect("the guardian exits");
    assert!(
        matches!(status, Ok(WaitStatus::Exited(_, 137))),
        "as the killed server: {status:?}"
    );
    // What held the control socket ends with its standard input.
    drop(host.stdin.take());
}

#[test]
fn nothing_survives_the_host() {
    kill_host(STUBBORN, 3, &[]);
}

#[test]
fn a_shared_control_socket_does_not_hide_the_death() {
    kill_host(STUBBORN, 3, &[(SHARE, OsStr::new("1"))]);
}

#[test]
fn a_server_that_stops_its_whole_tree_dies_as_well() {
    kill_host(
        "sh -c 'printf . >&9; kill -STOP $$' & printf . >&9; kill -STOP $$",
        2,
        &[],
    );
}

/// A host that starts daemonising servers without end. Their standard error is the FIFO, so they hold it from birth.
#[test]
#[ignore = "a role"]
fn busy_host() {
    let Ok(path) = std::env::var(FIFO) else {
        return;
    };
    let alive = OpenOptions::new().write(true).open(path).expect("open");
    let options = Options {
        stderr: Some(alive.as_fd()),
        ..Options::default()
    };
    let script = "trap '' TERM; (setsid sh -c 'printf . >&2; read never <&1' &); read never <&1";
    let mut servers = Vec::new();
    for _ in 0..60 {
        servers.push(Guarded::sh(script, &options));
    }
    let _ = std::io::stdin().read(&mut [0]);
}

/// Kills busy hosts, one after the other, at instants somewhere within a spawn.
///
/// In a process of its own, because every orphaned guardian becomes a child of this one, and it reaps whatever there is.
#[test]
#[ignore = "a role"]
fn killer() {
    if std::env::var_os(KILLER).is_none() {
        return;
    }
    nix::sys::prctl::set_child_subreaper(true).expect("prctl");
    for round in 0..20 {
        let mut alive = Alive::new();
        let mut host = play("host_death::busy_host", &[(FIFO, alive.path().as_os_str())]);
        alive.ready(1 + round);
        let until =
            Instant::now() + Duration::from_micros(u64::try_from(round).expect("small") * 67 % 700);
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        host.kill().expect("kill");
        host.wait().expect("wait");
        alive.nobody_is_left();
        // The guardians follow, and nothing else is left to wait for.
        while waitpid(None, None).is_ok() {}
    }
}

#[test]
fn a_host_killed_while_it_spawns_leaves_nothing() {
    let mut killer = play("host_death::killer", &[(KILLER, OsStr::new("1"))]);
    drop(killer.stdin.take());
    let output = killer.wait_with_output().expect("wait");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}
