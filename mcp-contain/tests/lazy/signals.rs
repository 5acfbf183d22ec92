//! Signals that come while a server is started.

use std::io::Read as _;
use std::thread;
use std::time::Duration;

use nix::libc;
use nix::sys::signal::Signal;
use serde_json::json;

use crate::chance::Chance;
use crate::host::{Alive, BOTH, Server, in_time, wrapped};
use crate::session::{Place, Session};

#[test]
fn a_relay_that_is_told_to_end_at_any_instant_of_a_start_stays_until_the_server_has_ended() {
    let mut chance = Chance::new();
    for round in 0..60 {
        let mut alive = Alive::new();
        // One that was asked takes a while.
        let script =
            "echo x >started; trap 'sleep 0.1; exit' TERM; while :; do read never <&8; done";
        let script = alive.script(script);
        let mut command = wrapped(&["--lazy", "--grace", "1s", "sh", "-c", &script]);
        command.env("HOME", alive.file(""));
        let mut session = Session::of(&mut command, BOTH[round % 2]);
        // It is asleep, and hears signals.
        session.call("ping", json!({}));
        session.ask("tools/call", json!({}));
        thread::sleep(Duration::from_micros(chance.below(2_000)));
        session.server.signal(Signal::SIGTERM);
        let (status, mut server) = in_time(move || {
            let status = session.server.child.wait();
            (status, session.server)
        });
        let has_started = alive.file("started").exists();
        assert!(!alive.somebody_is_left(), "round {round}: {status:?}");
        // Whoever the relay has started has this as well.
        in_time(move || server.stderr.read_to_string(&mut String::new())).unwrap();
        let is_late = alive.file("started").exists() && !has_started;
        assert!(!is_late, "round {round}: {status:?}, and then a server");
    }
}

#[test]
fn a_server_killed_by_a_signal_gives_its_code_also_to_an_init() {
    // The first process of a namespace cannot die of a signal: it exits with 128 and its number.
    let namespace = ["unshare", "-U", "-r", "-p", "-f"];
    let crash = |options: &[&str], signal: &str| {
        let alive = Alive::new();
        let script = format!("read line; kill -{signal} $$");
        let program = [env!("CARGO_BIN_EXE_mcp-contain")];
        let words = [&namespace[..], &program, options, &["sh", "-c", &script]].concat();
        let mut command = std::process::Command::new(words[0]);
        command.args(&words[1..]).env("HOME", alive.file(""));
        let mut session = Session::of(&mut command, BOTH[0]);
        session.ask("tools/call", json!({}));
        let (status, said) = session.server.ended();
        (status.code(), said)
    };
    for (signal, code) in [("SEGV", 139), ("RTMIN", 128 + libc::SIGRTMIN())] {
        let plain = crash(&[], signal);
        assert_eq!(plain, (Some(code), String::new()));
        assert_eq!(crash(&["--lazy"], signal), plain);
    }
}

/// The signals that are neither an order to the relay, nor of its own child, output, limits or terminal.
fn of_server() -> impl Iterator<Item = i32> {
    use libc::{SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGPIPE, SIGQUIT, SIGSTOP};
    use libc::{SIGTERM, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGXFSZ};
    let orders = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGURG];
    let own = [SIGCHLD, SIGPIPE, SIGXFSZ];
    let of_terminal = [SIGCONT, SIGKILL, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU];
    let all = (1..32).chain(libc::SIGRTMIN()..=libc::SIGRTMAX());
    all.filter(move |it| ![&orders[..], &own, &of_terminal].concat().contains(it))
}

fn send(server: &Server, number: i32) {
    // SAFETY: it takes numbers.
    assert_eq!(unsafe { libc::kill(server.pid().as_raw(), number) }, 0);
}

#[test]
fn a_relay_passes_on_every_signal_that_is_its_servers() {
    let mut alive = Alive::new();
    let numbers: Vec<_> = of_server().map(|it| it.to_string()).collect();
    let script = format!(
        "for s in {}; do trap \"echo $s >>log; printf . >&9\" $s; done; trap 'exit 0' TERM
        printf . >&9; while :; do read never <&8; done",
        numbers.join(" ")
    );
    let script = alive.script(&script);
    let mut command = wrapped(&["--restart", "--grace", "40s", "sh", "-c", &script]);
    let server = Server::start(command.env("HOME", alive.file("")), BOTH[0]);
    alive.ready(1);
    for number in of_server() {
        send(&server, number);
        alive.ready(1);
    }
    send(&server, libc::SIGXFSZ);
    let log = std::fs::read_to_string(alive.file("log")).unwrap();
    assert_eq!(log.lines().collect::<Vec<_>>(), numbers);
    server.signal(Signal::SIGTERM);
    assert_eq!(server.ended().0.code(), Some(0));
}

#[test]
fn a_relay_without_a_server_lives_on_after_its_signals() {
    let place = Place::new();
    let mut session = place.session(&["--lazy"]);
    // It is asleep, and hears signals.
    session.call("ping", json!({}));
    for number in of_server() {
        send(&session.server, number);
    }
    session.call("ping", json!({}));
    assert!(session.end().success());
}
