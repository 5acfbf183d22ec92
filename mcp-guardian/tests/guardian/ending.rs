//! Asking, forcing, and what the server leaves behind by itself.

use mcp_guardian::program::protocol::Request;
use nix::sys::wait::WaitStatus;

use crate::lab::{Alive, Guarded, Options, Said, timeout_of_poll};

/// Prints to the FIFO that it is ready, and then outlasts every test.
const STAY: &str = "printf . >&9; while :; do sleep 3600; done";

/// Descendants that leave in every way there is, and ignore SIGTERM.
const STUBBORN: &[(&str, &str)] = &[
    ("plain", "trap '' TERM; $STAY"),
    ("helper", "trap '' TERM; sh -c \"$STAY\" & $STAY"),
    ("setsid", "trap '' TERM; setsid sh -c \"$STAY\" & $STAY"),
    (
        "double fork",
        "trap '' TERM; (setsid sh -c \"$STAY\" </dev/null >/dev/null 2>&1 &) ; $STAY",
    ),
    (
        "wiped environment",
        "trap '' TERM; (env -i /bin/sh -c \"$STAY\" &) ; $STAY",
    ),
    (
        "leader leaves first",
        "trap '' TERM; (setsid sh -c \"$STAY\" &) ; sh -c \"$STAY\" & printf .",
    ),
];

/// Every shape has two processes that report, except the first.
fn start(shape: &str, script: &str, options: &Options<'_>) -> (Guarded, Alive) {
    let mut alive = Alive::new();
    let script = alive.script(&format!(
        "export STAY='{STAY}'\n{}",
        script.replace("$STAY", STAY)
    ));
    let server = Guarded::sh(&script, options);
    server.started();
    alive.ready(if shape == "plain" { 1 } else { 2 });
    (server, alive)
}

#[test]
fn killing_reaches_whoever_tried_to_leave() {
    for (shape, script) in STUBBORN {
        let (server, mut alive) = start(shape, script, &Options::default());
        let swept = server.kill();
        assert!(!alive.somebody_is_left(), "{shape}: gone is said when gone");
        // A shell that waits may reap its helper before it dies itself; then nobody else
        // hears of that one. Whoever was the guardian's child already is named.
        let named = match *shape {
            "plain" | "helper" | "setsid" => &["sh", "sleep"][..],
            _ => &["sh"],
        };
        // The one helper of a plain shell may not have been started yet.
        let nobody = *shape == "plain" && swept.count == 0;
        assert!(
            nobody || swept.names.iter().any(|name| named.contains(&&**name)),
            "{shape}: {swept:?}"
        );
        assert_eq!(swept.count as usize, swept.names.len(), "{shape}");
    }
}

#[test]
fn dropping_the_handle_kills() {
    for (shape, script) in STUBBORN {
        let (server, mut alive) = start(shape, script, &Options::default());
        drop(server);
        alive.nobody_is_left();
    }
}

#[test]
fn a_polite_tree_ends_when_asked() {
    let mut alive = Alive::new();
    // The main process, a helper in its group, one outside, each saying goodbye once per SIGTERM.
    let polite = "trap 'printf T; exit 0' TERM; printf . >&9; while :; do sleep 0.01; done";
    let script = alive.script(&format!(
        "sh -c \"{polite}\" & setsid sh -c \"{polite}\" & {polite}"
    ));
    let mut server = Guarded::sh(&script, &Options::default());
    server.started();
    alive.ready(3);
    server.ask(Request::Terminate);
    let (status, ..) = server.gone();
    assert_eq!(status, 0);
    assert!(!alive.somebody_is_left());
    assert_eq!(server.read_stdout_to_end(), "TTT", "each was asked once");
}

#[test]
fn a_stopped_server_can_be_asked() {
    let mut alive = Alive::new();
    let script = alive
        .script("trap 'exit 5' TERM; printf . >&9; kill -STOP $$; while :; do sleep 0.01; done");
    let server = Guarded::sh(&script, &Options::default());
    let pid = server.started();
    alive.ready(1);
    // An event, not a delay: the parent is the guardian, so the state is read until it says so.
    let stopped = || {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") T "))
    };
    while !stopped() {
        std::thread::yield_now();
    }
    server.ask(Request::Terminate);
    assert_eq!(server.gone().0, 5 << 8);
}

#[test]
fn a_stopped_server_can_be_killed() {
    let mut alive = Alive::new();
    let server = Guarded::sh(
        &alive.script("printf . >&9; kill -STOP $$"),
        &Options::default(),
    );
    server.started();
    alive.ready(1);
    server.kill();
    assert!(!alive.somebody_is_left());
}

/// There is one clock, and it is the host's: what a guardian used to do by
/// itself after ten seconds, and to a server that was still within its grace.
#[test]
fn stragglers_are_reported_and_left_to_the_host() {
    for asked in [false, true] {
        let mut alive = Alive::new();
        let script = alive.script(&format!("(trap '' TERM; setsid sh -c '{STAY}' &); exit 4"));
        let server = Guarded::sh(&script, &Options::default());
        server.started();
        assert_eq!(server.hear(), Said::MainExited(4 << 8));
        alive.ready(1);
        if asked {
            server.ask(Request::Terminate);
        }
        // Nothing is pending: it waits without a time, for its host alone.
        assert_eq!(timeout_of_poll(server.handle.pid()), None, "asked: {asked}");
        assert!(alive.somebody_is_left());
        server.ask(Request::Kill);
        let Said::Gone { status, swept } = server.hear() else {
            panic!("gone")
        };
        assert_eq!(status, 4 << 8);
        assert!(swept.names.contains(&"sh".to_owned()), "{swept:?}");
        assert_eq!(server.reaped().code(), Some(4));
        assert!(!alive.somebody_is_left());
    }
}

#[test]
fn polite_stragglers_are_gone_once_they_are_asked() {
    let mut alive = Alive::new();
    let script = alive.script(&format!("sh -c '{STAY}' & read line"));
    let mut server = Guarded::sh(&script, &Options::default());
    server.started();
    alive.ready(1);
    server.stdin = None;
    let Said::MainExited(left) = server.hear() else {
        panic!("the main process leaves at end of file")
    };
    assert!(left == 0 || left == 1 << 8, "as `read` says: {left}");
    server.ask(Request::Terminate);
    let Said::Gone { status, swept } = server.hear() else {
        panic!("gone")
    };
    assert_eq!(status, left);
    assert!(swept.count >= 1);
    server.reaped();
    assert!(!alive.somebody_is_left());
}

#[test]
fn a_burst_is_killed_whole() {
    let mut alive = Alive::new();
    let burst = format!(
        "trap '' TERM; i=0; while [ $i -lt 199 ]; do setsid sh -c '{}' & i=$((i+1)); done; {STAY}",
        "printf . >&9; read never <&8"
    );
    let script = alive.script(&format!(
        "exec 8<>{}\n{burst}",
        alive.path().with_extension("never").display()
    ));
    nix::unistd::mkfifo(
        &alive.path().with_extension("never"),
        nix::sys::stat::Mode::S_IRWXU,
    )
    .expect("mkfifo");
    let server = Guarded::sh(&script, &Options::default());
    server.started();
    alive.ready(200);
    let swept = server.kill();
    assert!(swept.count >= 199, "{swept:?}");
    assert_eq!(swept.names.len(), 64);
    assert!(!alive.somebody_is_left());
}

#[test]
fn a_killed_guardian_takes_the_server_along() {
    let mut alive = Alive::new();
    let server = Guarded::sh(
        &alive.script("printf . >&9; read never"),
        &Options::default(),
    );
    server.started();
    alive.ready(1);
    let guardian = nix::unistd::Pid::from_raw(server.handle.pid().cast_signed());
    nix::sys::signal::kill(guardian, nix::sys::signal::SIGKILL).expect("kill");
    alive.nobody_is_left();
    // No last word, and a signal: that is how the host knows.
    let status = server.reaped();
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(9)
    );
    assert!(!matches!(
        nix::sys::wait::waitpid(guardian, None),
        Ok(WaitStatus::Exited(..))
    ));
}

#[test]
fn signals_do_not_reach_the_guardian() {
    let mut server = Guarded::start(&["/bin/cat"], &Options::default());
    server.started();
    let guardian = nix::unistd::Pid::from_raw(server.handle.pid().cast_signed());
    for signal in nix::sys::signal::Signal::iterator() {
        if !matches!(
            signal,
            nix::sys::signal::SIGKILL | nix::sys::signal::SIGSTOP
        ) {
            nix::sys::signal::kill(guardian, signal).expect("kill");
        }
    }
    server.write_stdin("x");
    assert_eq!(server.read_stdout(1), "x");
    server.stdin = None;
    assert_eq!(server.gone().0, 0);
}
