//! The host dies, and takes no destructor along.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use mcp_guardian::program::protocol::Request;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::lab::{Alive, DEADLINE, Guarded, Options, play};

const SCRIPT: &str = "MCP_TEST_SCRIPT";
const SHARE: &str = "MCP_TEST_SHARE_CONTROL";
const GRACE: &str = "MCP_TEST_GRACE_MS";
const KILLER: &str = "MCP_TEST_KILLER";
const FIFO: &str = "MCP_TEST_FIFO";
/// The guardian's exit code when its server was killed.
const KILLED: i32 = 128 + 9;
const STUBBORN: &str = "trap '' TERM; S='printf . >&9; while :; do sleep 3600; done'; sh -c \"$S\" & (setsid sh -c \"$S\" &); eval \"$S\"";

/// A host: starts the script of its environment, says the guardian's pid, and waits to be killed.
#[test]
#[ignore = "a role"]
fn host() {
    let Ok(script) = std::env::var(SCRIPT) else {
        return;
    };
    let grace = std::env::var(GRACE).map_or(0, |ms| ms.parse().expect("a number"));
    let grace = Duration::from_millis(grace);
    let server = Guarded::sh(
        &script,
        &Options {
            grace,
            ..Options::default()
        },
    );
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
    while let Ok(1..) = std::io::stdin().read(&mut [0]) {
        server.ask(Request::Terminate);
    }
    drop((server, copy));
}

/// Kills a host that runs `script` when all of its `processes` are ready. Returns the guardian's exit code, and how long
/// anybody lived.
fn kill_host(script: &str, processes: usize, variables: &[(&str, &OsStr)]) -> (i32, Duration) {
    kill_host_that(false, script, processes, variables)
}

/// The same; one that has `asked` the server to end, which then writes a byte.
fn kill_host_that(
    asked: bool,
    script: &str,
    processes: usize,
    variables: &[(&str, &OsStr)],
) -> (i32, Duration) {
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
    if asked {
        host.stdin
            .as_mut()
            .expect("piped")
            .write_all(b".")
            .expect("write");
        alive.ready(1);
    }
    host.kill().expect("kill");
    let killed = Instant::now();
    alive.nobody_is_left();
    let lived = killed.elapsed();
    host.wait().expect("wait");
    let (exited, exit) = mpsc::channel();
    std::thread::spawn(move || exited.send(waitpid(guardian, None)));
    let status = exit.recv_timeout(DEADLINE).expect("the guardian exits");
    // What held the control socket ends with its standard input.
    drop(host.stdin.take());
    match status {
        Ok(WaitStatus::Exited(_, code)) => (code, lived),
        other => panic!("the guardian was killed: {other:?}"),
    }
}

#[test]
fn nothing_survives_the_host() {
    assert_eq!(kill_host(STUBBORN, 3, &[]).0, KILLED);
}

#[test]
fn a_shared_control_socket_does_not_hide_the_death() {
    assert_eq!(
        kill_host(STUBBORN, 3, &[(SHARE, OsStr::new("1"))]).0,
        KILLED
    );
}

#[test]
fn with_a_grace_the_server_of_a_dead_host_ends_in_its_own_way() {
    for share in [None, Some((SHARE, OsStr::new("1")))] {
        let saved = tempfile::NamedTempFile::new().expect("a file");
        // Each in a session of its own: both are asked. What the shell sleeps in ends by the same signal.
        let script = format!(
            "exec 2>/dev/null
F='{saved}.fifo'; mkfifo \"$F\"; exec 8<>\"$F\"; rm \"$F\"
S=$(cat <<'END'
trap 'sleep 0.2; echo saved >> {saved}; exit 7' TERM
printf . >&9
while :; do read never <&8; done
END
)
setsid sh -c \"$S\" &
eval \"$S\"",
            saved = saved.path().display()
        );
        let variables: Vec<_> = share
            .into_iter()
            .chain([(GRACE, OsStr::new("20000"))])
            .collect();
        let (code, lived) = kill_host(&script, 2, &variables);
        assert_eq!(code, 7);
        assert!(
            lived < Duration::from_secs(15),
            "nobody waits for the end of the grace"
        );
        assert_eq!(
            std::fs::read_to_string(saved.path()).expect("read"),
            "saved\nsaved\n"
        );
    }
}

#[test]
fn who_does_not_use_the_grace_is_killed_at_its_end() {
    let (code, lived) = kill_host(STUBBORN, 3, &[(GRACE, OsStr::new("300"))]);
    assert_eq!(code, KILLED);
    assert!(lived >= Duration::from_millis(290), "{lived:?}");
}

#[test]
fn who_was_asked_by_its_host_is_not_asked_again_when_that_dies() {
    // A second SIGTERM would end it with another code.
    let script = "F=$(mktemp -u); mkfifo $F; exec 8<>$F; rm $F
trap 'trap \"exit 9\" TERM; printf . >&9; sleep 0.5; exit 3' TERM
printf . >&9
while :; do read never <&8; done";
    let (code, _) = kill_host_that(true, script, 1, &[(GRACE, OsStr::new("20000"))]);
    assert_eq!(code, 3);
}

#[test]
fn a_server_that_stops_its_whole_tree_dies_as_well() {
    let script = "sh -c 'printf . >&9; kill -STOP $$' & printf . >&9; kill -STOP $$";
    assert_eq!(kill_host(script, 2, &[]).0, KILLED);
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
