//! What is asked for by `--require`, and what happens when the means are killed.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;

use mcp_launcher_local::{Isolation, LocalLauncher};
use mcp_lifecycle_core::launch::ServerLauncher as _;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::host::{Alive, Server, Streams, wrapped};

/// Serves until SIGTERM, and says hello.
const SERVES: &str = "trap 'echo term >>log; exit 4' TERM; trap 'echo int >>log; printf . >&9' INT
printf . >&9; while :; do read never <&8; done";

fn children(pid: u32) -> Vec<i32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    list.split_whitespace()
        .map(|word| word.parse().unwrap())
        .collect()
}

/// The pid of the guardian, once the wrapper has become the shim.
fn guardian(server: &Server) -> Pid {
    let shim = server.child.id();
    let end = std::time::Instant::now() + crate::host::DEADLINE;
    while fs::read_to_string(format!("/proc/{shim}/cmdline"))
        .unwrap()
        .split('\0')
        .nth(1)
        != Some("shim")
    {
        assert!(
            std::time::Instant::now() < end,
            "it does not become the shim"
        );
        std::thread::yield_now();
    }
    match children(shim)[..] {
        [only] => Pid::from_raw(only),
        ref other => panic!("{other:?}"),
    }
}

fn has_cgroup(server: &Server) -> bool {
    let pid = guardian(server).as_raw().unsigned_abs();
    let inside = children(pid)[0];
    fs::read_to_string(format!("/proc/{inside}/cgroup"))
        .unwrap()
        .contains("/mcp-")
}

#[test]
fn a_killed_guardian_takes_the_server_along_and_the_wrapper_says_that_it_proves_nothing() {
    let mut alive = Alive::new();
    let script = alive.script(&format!(
        "(setsid sh -c 'printf . >&9; exec sleep 1000' &) ; {SERVES}"
    ));
    let server = Server::start(&mut wrapped(&["sh", "-c", &script]), Streams::Pipes);
    alive.ready(2);
    let in_cgroup = has_cgroup(&server);
    kill(guardian(&server), Signal::SIGKILL).unwrap();
    let (status, said) = server.ended();
    assert_eq!(status.code(), Some(125));
    assert!(
        said.starts_with("mcp-contain: the guardian") && said.lines().count() == 1,
        "{said}"
    );
    if in_cgroup {
        alive.nobody_is_left();
    } else {
        // By its mark, as any other orphan.
        reap();
        alive.nobody_is_left();
    }
}

/// Ends what dead hosts have left, as a library host does.
fn reap() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime
        .block_on(LocalLauncher::new().reap_orphans())
        .unwrap();
}

#[test]
fn who_searches_for_orphans_spares_a_server_in_its_grace_and_ends_one_that_lost_everybody() {
    let mut alive = Alive::new();
    let script = alive.script("trap 'printf . >&9; sleep 1; echo saved >>log; exit' TERM; printf . >&9; while :; do read never <&8; done");
    let server = Server::start(
        &mut wrapped(&["--grace", "20s", "sh", "-c", &script]),
        Streams::Pipes,
    );
    alive.ready(1);
    server.signal(Signal::SIGKILL);
    alive.ready(1);
    reap();
    alive.nobody_is_left();
    assert_eq!(fs::read_to_string(alive.file("log")).unwrap(), "saved\n");
    server.ended();

    let script = alive.script("trap '' TERM; (setsid sh -c 'printf . >&9; exec sleep 1000' &); printf . >&9; while :; do read never <&8; done");
    let server = Server::start(&mut wrapped(&["sh", "-c", &script]), Streams::Pipes);
    alive.ready(2);
    let guardian = guardian(&server);
    // Both at once: a stopped guardian notices nothing.
    kill(guardian, Signal::SIGSTOP).unwrap();
    server.signal(Signal::SIGKILL);
    kill(guardian, Signal::SIGKILL).unwrap();
    assert!(alive.somebody_is_left(), "what the search is for");
    // The lock says that somebody lives until the guardian has ended, which takes a moment.
    let end = std::time::Instant::now() + crate::host::DEADLINE;
    while alive.somebody_is_left() {
        assert!(std::time::Instant::now() < end, "it is not found");
        reap();
    }
    server.ended();
}

/// Whether this machine can do it, as a library host finds out.
fn is_possible(level: &str) -> bool {
    let isolation = match level {
        "pidns" => Isolation::PidNamespace,
        _ => Isolation::Guardian,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let found = runtime.block_on(LocalLauncher::new().isolation(isolation).probe());
    match level {
        "guardian" => true,
        "cgroup" => found.mechanism == "guardian and cgroup",
        _ => found.mechanism == "PID namespace",
    }
}

#[test]
fn what_is_required_is_there_or_nothing_is() {
    for level in ["guardian", "cgroup", "pidns"] {
        let mut alive = Alive::new();
        let script = alive.script(SERVES);
        let words = ["--require", level, "sh", "-c", &script];
        let server = Server::start(&mut wrapped(&words), Streams::Pipes);
        if !is_possible(level) {
            let (status, said) = server.ended();
            assert_eq!(status.code(), Some(125), "{level}: {said}");
            continue;
        }
        alive.ready(1);
        assert!(level != "cgroup" || has_cgroup(&server));
        server.signal(Signal::SIGINT);
        alive.ready(1);
        server.signal(Signal::SIGTERM);
        let (status, _) = server.ended();
        assert_eq!(status.code(), Some(4), "{level}");
        assert_eq!(
            fs::read_to_string(alive.file("log")).unwrap(),
            "int\nterm\n",
            "{level}"
        );
        alive.nobody_is_left();

        let script = alive.script("trap '' TERM; S='printf . >&9; while :; do read never <&8; done'; setsid sh -c \"$S\" & eval \"$S\"");
        let words = ["--grace", "200ms", "--require", level, "sh", "-c", &script];
        let server = Server::start(&mut wrapped(&words), Streams::Pipes);
        alive.ready(2);
        server.signal(Signal::SIGTERM);
        assert_eq!(server.ended().0.signal(), Some(9), "{level}");
        alive.nobody_is_left();
    }
}
