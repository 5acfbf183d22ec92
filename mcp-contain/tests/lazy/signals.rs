//! Signals that come while a server is started.

use std::io::Read as _;
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::json;

use crate::chance::Chance;
use crate::host::{Alive, BOTH, in_time, wrapped};
use crate::session::Session;

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
    for (signal, code) in [("SEGV", 139), ("RTMIN", 128 + nix::libc::SIGRTMIN())] {
        let plain = crash(&[], signal);
        assert_eq!(plain, (Some(code), String::new()));
        assert_eq!(crash(&["--lazy"], signal), plain);
    }
}
