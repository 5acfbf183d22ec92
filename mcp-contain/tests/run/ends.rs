//! How a server ends: by the end of its input, by its host's signals, with its host, and with its wrapper.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::STUBBORN;
use crate::host::{Alive, BOTH, Server, Streams, wrapped};

/// Ignores the end of its input, says what it is sent, and takes its time after SIGTERM.
const SAVES: &str =
    "trap 'echo int >>log' INT; trap 'echo term >>log; printf . >&9; sleep 0.3; echo saved >>log; exit 4' TERM
printf . >&9; while :; do read never <&8; done";
/// Time that is enough for it on a busy machine too: what is judged is what it was sent, and not how quick it was.
const GRACE: &str = "4s";
/// The same where nobody waits for it to pass.
const LONG: [&str; 2] = ["--grace", "40s"];

pub(crate) fn start(alive: &Alive, options: &[&str], script: &str, streams: Streams) -> Server {
    let script = alive.script(script);
    let words = [options, &["sh", "-c", &script]].concat();
    Server::start(&mut wrapped(&words), streams)
}

fn log(alive: &Alive) -> String {
    std::fs::read_to_string(alive.file("log")).unwrap_or_default()
}

#[test]
fn at_the_end_of_its_input_a_server_is_asked_after_the_grace_and_killed_after_another() {
    for streams in BOTH {
        let mut alive = Alive::new();
        let mut server = start(&alive, &["--grace", GRACE], SAVES, streams);
        alive.ready(1);
        let closed = Instant::now();
        // Also with something unread.
        server.stdin.as_mut().unwrap().write_all(b"unread").unwrap();
        server.stdin = None;
        let (status, _) = server.ended();
        assert!(closed.elapsed() >= Duration::from_secs(4));
        assert_eq!(status.code(), Some(4), "{streams:?}");
        assert_eq!(log(&alive), "term\nsaved\n");
        alive.nobody_is_left();

        let mut alive = Alive::new();
        let mut server = start(&alive, &["--grace", "300ms"], STUBBORN, streams);
        alive.ready(2);
        server.stdin = None;
        let closed = Instant::now();
        let (status, said) = server.ended();
        assert!(closed.elapsed() >= Duration::from_millis(600));
        assert_eq!((status.signal(), &*said), (Some(9), ""));
        alive.nobody_is_left();
    }
}

#[test]
fn sigterm_asks_at_once_and_the_wrapper_stays_until_the_proof() {
    let mut alive = Alive::new();
    let server = start(&alive, &LONG, SAVES, Streams::Pipes);
    alive.ready(1);
    server.signal(Signal::SIGTERM);
    assert_eq!(server.ended().0.code(), Some(4));
    assert_eq!(log(&alive), "term\nsaved\n");
    assert!(!alive.somebody_is_left());
    let server = start(&alive, &["--grace", "200ms"], STUBBORN, Streams::Pipes);
    alive.ready(2);
    server.signal(Signal::SIGTERM);
    assert_eq!(server.ended().0.signal(), Some(9));
    assert!(!alive.somebody_is_left(), "it ends after the last of them");
}

#[test]
fn sigint_is_passed_on_and_begins_the_ladder() {
    let mut alive = Alive::new();
    let server = start(&alive, &["--grace", GRACE], SAVES, Streams::Pipes);
    alive.ready(1);
    server.signal(Signal::SIGINT);
    assert_eq!(server.ended().0.code(), Some(4));
    assert_eq!(log(&alive), "int\nterm\nsaved\n");
    alive.nobody_is_left();
}

#[test]
fn other_signals_are_passed_on_and_end_nothing() {
    let mut alive = Alive::new();
    let script = "for s in HUP QUIT USR1 USR2 WINCH; do trap \"echo $s >>log; printf . >&9\" $s; done; trap 'exit 0' TERM
    printf . >&9; while :; do read never <&8; done";
    let server = start(&alive, &LONG, script, Streams::Pipes);
    alive.ready(1);
    let names = ["HUP", "QUIT", "USR1", "USR2", "WINCH"];
    for name in names {
        server.signal(format!("SIG{name}").parse().unwrap());
        alive.ready(1);
    }
    assert_eq!(log(&alive), names.map(|name| format!("{name}\n")).concat());
    server.signal(Signal::SIGTERM);
    assert_eq!(server.ended().0.code(), Some(0));
}

#[test]
fn a_server_gets_one_sigterm_for_one_of_its_host_s() {
    let mut alive = Alive::new();
    // Asked by the ladder, and then by the host, as hosts with the same graces do.
    let mut server = start(&alive, &["--grace", GRACE], SAVES, Streams::Pipes);
    alive.ready(1);
    server.stdin = None;
    // Its trap says so.
    alive.ready(1);
    server.signal(Signal::SIGTERM);
    assert_eq!(server.ended().0.code(), Some(4));
    assert_eq!(log(&alive), "term\nsaved\n");
    alive.nobody_is_left();
}

#[test]
fn when_the_wrapper_is_killed_the_server_is_asked_first() {
    for streams in BOTH {
        let mut alive = Alive::new();
        let server = start(&alive, &LONG, SAVES, streams);
        alive.ready(1);
        server.signal(Signal::SIGKILL);
        alive.nobody_is_left();
        assert_eq!(log(&alive), "term\nsaved\n", "{streams:?}");
        assert_eq!(server.ended().0.signal(), Some(9));

        let mut alive = Alive::new();
        let server = start(&alive, &["--grace", "300ms"], STUBBORN, streams);
        alive.ready(2);
        server.signal(Signal::SIGKILL);
        let killed = Instant::now();
        alive.nobody_is_left();
        assert!(killed.elapsed() >= Duration::from_millis(290));
        server.ended();
    }
}

#[test]
fn who_was_asked_is_not_asked_again_when_the_wrapper_is_killed() {
    let mut alive = Alive::new();
    let script =
        "trap 'trap \"echo twice >>log\" TERM; printf . >&9; sleep 0.5; echo once >>log; exit' TERM
    printf . >&9; while :; do read never <&8; done";
    let server = start(&alive, &LONG, script, Streams::Pipes);
    alive.ready(1);
    // As Claude Code does.
    server.signal(Signal::SIGTERM);
    alive.ready(1);
    server.signal(Signal::SIGKILL);
    alive.nobody_is_left();
    assert_eq!(log(&alive), "once\n");
    server.ended();
}

#[test]
fn stragglers_are_ended_and_the_streams_with_them() {
    let mut alive = Alive::new();
    let setsid = if crate::LEVEL.is_empty() {
        "setsid"
    } else {
        ""
    };
    let script = format!(
        "sh -c \"trap '' TERM; printf . >&9; while :; do read never <&8; done\" & {setsid} sleep 1000 & read go; exit 5"
    );
    let mut server = start(&alive, &["--grace", "200ms"], &script, Streams::Pipes);
    alive.ready(1);
    server.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    let mut said = String::new();
    server.stdout.read_to_string(&mut said).unwrap();
    assert_eq!(
        server.ended().0.code(),
        Some(5),
        "the code is the main process's"
    );
    assert!(!alive.somebody_is_left());
}

#[test]
fn when_the_host_dies_and_others_keep_its_pipes_the_server_ends() {
    let mut alive = Alive::new();
    let server = alive.script(SAVES);
    // Somebody else keeps the writing end of the server's input, and the host says who.
    let mut host = Command::new("sh");
    host.args([
        "-c",
        "mkfifo in; sleep 1000 >in & echo $!; exec 3<in; rm in; \"$@\" <&3 & wait",
    ]);
    host.args(["sh", env!("CARGO_BIN_EXE_mcp-contain")]);
    host.args(crate::LEVEL).args(LONG);
    host.args(["sh", "-c", &server]);
    let directory = tempfile::tempdir().unwrap();
    host.current_dir(&directory).stdout(Stdio::piped());
    let mut host = host.spawn().unwrap();
    let mut lines = BufReader::new(host.stdout.take().unwrap()).lines();
    let keeper: i32 = lines.next().unwrap().unwrap().parse().unwrap();
    alive.ready(1);
    host.kill().unwrap();
    alive.nobody_is_left();
    assert_eq!(log(&alive), "term\nsaved\n");
    kill(Pid::from_raw(keeper), Signal::SIGKILL).unwrap();
    host.wait().unwrap();
}
