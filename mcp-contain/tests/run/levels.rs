//! Levels that `--require` asks for, and what happens when the means are killed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;

use mcp_launcher_local::{Isolation, LocalLauncher};
use mcp_lifecycle_core::launch::ServerLauncher as _;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpgid, getsid};

use crate::host::{Alive, Server, Streams, wrapped};

/// Serves until SIGTERM, and says hello.
const SERVES: &str = "trap 'echo term >>log; exit 4' TERM; trap 'echo int >>log; printf . >&9' INT
printf . >&9; while :; do read never <&8; done";

pub(crate) fn children(pid: u32) -> Vec<i32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    list.split_whitespace()
        .map(|word| word.parse().unwrap())
        .collect()
}

/// The pid of the guardian, once the wrapper has become the shim.
pub(crate) fn guardian(server: &Server) -> Pid {
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
fn the_server_is_in_the_hosts_session_and_its_guardian_is_not() {
    let mut alive = Alive::new();
    let mut server = Server::start(
        &mut wrapped(&["sh", "-c", &alive.script("printf . >&9; read line")]),
        Streams::Pipes,
    );
    alive.ready(1);
    let guardian = guardian(&server);
    let main = Pid::from_raw(children(guardian.as_raw().unsigned_abs())[0]);
    for pid in [server.pid(), main] {
        assert_eq!(getsid(Some(pid)), getsid(None));
    }
    assert_eq!(getpgid(Some(main)), Ok(main));
    assert_eq!(getsid(Some(guardian)), Ok(guardian));
    server.stdin = None;
    server.ended();
    alive.nobody_is_left();
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

/// The first child of a process, as soon as it has one.
fn first_child(pid: u32) -> Option<u32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    list.split_whitespace().next()?.parse().ok()
}

fn ledgers(state: &Path) -> Vec<std::ffi::OsString> {
    let names = fs::read_dir(state)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    names
        .filter(|name| name.as_encoded_bytes().ends_with(b".ledger"))
        .collect()
}

#[test]
fn a_guardian_killed_before_it_said_that_the_server_runs_leaves_its_record() {
    let state = tempfile::tempdir().unwrap();
    fs::set_permissions(state.path(), PermissionsExt::from_mode(0o700)).unwrap();
    // The instant is between the fork of the server and the guardian's look at its exec: a guardian that is stopped there
    // says nothing, and its server runs.
    for _ in 0..500 {
        let mut alive = Alive::new();
        let script = alive.script("setsid sh -c 'printf . >&9; exec sleep 1000' & printf . >&9; while :; do read never <&8; done");
        let mut command = wrapped(&["sh", "-c", &script]);
        command.env("MCP_LIFECYCLE_STATE_DIR", state.path());
        let mut server = Server::start(&mut command, Streams::Pipes);
        let wrapper = server.child.id();
        let end = std::time::Instant::now() + crate::host::DEADLINE;
        let guardian = loop {
            assert!(std::time::Instant::now() < end, "there is no guardian");
            if let Some(guardian) = first_child(wrapper)
                && first_child(guardian).is_some()
            {
                break Pid::from_raw(guardian.cast_signed());
            }
        };
        kill(guardian, Signal::SIGSTOP).unwrap();
        alive.ready(2);
        let words = fs::read_to_string(format!("/proc/{wrapper}/cmdline")).unwrap();
        if words.split('\0').nth(1) == Some("shim") {
            // Too late: it has spoken.
            kill(guardian, Signal::SIGCONT).unwrap();
            server.stdin = None;
            server.signal(Signal::SIGTERM);
            server.child.wait().unwrap();
            alive.nobody_is_left();
            continue;
        }
        kill(guardian, Signal::SIGKILL).unwrap();
        let status = server.child.wait().unwrap();
        assert_eq!(status.code(), Some(125), "{status}");
        let left = ledgers(state.path());
        assert_eq!(left.len(), 1, "its record is there: {left:?}");
        // By that it is found, where its cgroup has not ended it.
        let mut search = wrapped(&["reap"]);
        search.env("MCP_LIFECYCLE_STATE_DIR", state.path());
        let end = std::time::Instant::now() + crate::host::DEADLINE;
        while !ledgers(state.path()).is_empty() || alive.somebody_is_left() {
            assert!(std::time::Instant::now() < end, "it is not found");
            search.output().unwrap();
        }
        let (_, said) = server.ended();
        if said.starts_with("mcp-contain: the guardian") {
            // Too late as well: it had spoken, and its wrapper was on the way to become the shim.
            continue;
        }
        assert!(
            said.contains("may live") && said.contains("MCP_LIFECYCLE_ID="),
            "{said}"
        );
        return;
    }
    panic!("the instant was never met");
}

#[test]
fn a_host_that_reads_no_words_does_not_keep_a_wrapper_whose_guardian_was_killed() {
    let mut alive = Alive::new();
    let script = alive.script("printf . >&9; exec dd if=/dev/zero bs=64k count=9 >&2");
    let mut server = Server::start(&mut wrapped(&["sh", "-c", &script]), Streams::Pipes);
    alive.ready(1);
    let guardian = guardian(&server);
    // Until its standard error is full.
    let blocked = |pid: i32| {
        let call = fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
        call.contains("pipe_write")
    };
    let end = std::time::Instant::now() + crate::host::DEADLINE;
    while !children(guardian.as_raw().unsigned_abs())
        .into_iter()
        .any(blocked)
    {
        assert!(std::time::Instant::now() < end, "it is not full");
        std::thread::yield_now();
    }
    kill(guardian, Signal::SIGKILL).unwrap();
    let mut child = server.child;
    let status = crate::host::in_time(move || child.wait().unwrap());
    assert_eq!(status.code(), Some(125));
    drop((server.stdin.take(), server.stderr));
}

#[test]
fn a_guardian_that_was_stopped_and_flooded_asks_and_ends_all_the_same() {
    let mut alive = Alive::new();
    let script = "trap '' USR1 USR2; trap 'echo term >>log; exit 4' TERM; printf . >&9; while :; do read never <&8; done";
    let script = alive.script(script);
    let words = ["--grace", "1s", "sh", "-c", &script];
    let mut server = Server::start(&mut wrapped(&words), Streams::Pipes);
    alive.ready(1);
    kill(guardian(&server), Signal::SIGSTOP).unwrap();
    // More than a socket holds, at the pace at which the shim takes them.
    for _ in 0..2_000 {
        server.signal(Signal::SIGUSR1);
        server.signal(Signal::SIGUSR2);
        std::thread::sleep(std::time::Duration::from_micros(200));
    }
    server.stdin = None;
    assert_eq!(server.ended().0.code(), Some(4), "it was asked");
    assert_eq!(fs::read_to_string(alive.file("log")).unwrap(), "term\n");
    alive.nobody_is_left();
}

#[test]
fn cgroups_that_the_server_has_made_are_removed_whatever_they_are_called() {
    let mut alive = Alive::new();
    let script = "C=$(sed -n 's/^0:://p' /proc/self/cgroup); R=/sys/fs/cgroup/unified; [ -e $R ] || R=/sys/fs/cgroup
        case $C in */mcp-*) mkdir -p $R$C/.hidden/.x $R$C/plain && echo $R$C >made;; esac; printf . >&9; read never";
    let server = Server::start(
        &mut wrapped(&["sh", "-c", &alive.script(script)]),
        Streams::Pipes,
    );
    alive.ready(1);
    server.signal(Signal::SIGTERM);
    let (status, said) = server.ended();
    assert_eq!((status.signal(), &*said), (Some(15), ""));
    // Where it has a cgroup, that was made.
    if let Ok(made) = fs::read_to_string(alive.file("made")) {
        assert!(!Path::new(made.trim()).exists(), "{made}");
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
    let found = runtime.block_on(
        LocalLauncher::builder()
            .isolation(isolation)
            .build()
            .probe(),
    );
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

/// SIGXFSZ was blocked when the write was refused, and would end the wrapper later.
#[test]
fn a_limit_of_file_sizes_starts_the_server_without_guardian() {
    for blocks in ["0", "8"] {
        let wrapped = wrapped(&["echo", "served"]);
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -f $0; exec \"$@\"", blocks]);
        command.arg(wrapped.get_program()).args(wrapped.get_args());
        for (name, value) in wrapped.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(output.stdout, b"served\n");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("File too large"), "{said}");
    }
}
