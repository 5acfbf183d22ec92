//! Bytes in both directions, and readers that stop.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::Signal;

use crate::chance::Chance;
use crate::flow::{LONG, all_said, half_close, there_and_back};
use crate::host::{BOTH, Server, comes_to_rest, wrapped};
use crate::input::peak;
use crate::session::Place;

#[test]
fn random_lines_go_both_ways_at_once_as_they_are() {
    for (streams, option) in BOTH.into_iter().zip(["--restart", "--lazy"]) {
        let bytes = Chance::new().lines(LONG);
        let mut command = wrapped(&[option, "--grace", "20s", "cat"]);
        let mut back = there_and_back(&mut command, streams, &bytes);
        if bytes.last() != Some(&b'\n') {
            // A last line without an end gets one, for another may follow.
            assert_eq!(back.pop(), Some(b'\n'));
        }
        assert_eq!(back.len(), bytes.len(), "{option}");
        assert!(back == bytes, "{option}");
    }
}

#[test]
fn a_line_of_single_bytes_comes_as_soon_as_it_is_whole() {
    for streams in BOTH {
        let mut server = Server::start(&mut wrapped(&["--restart", "cat"]), streams);
        let mut stdin = server.stdin.take().unwrap();
        let mut stdout = BufReader::new(server.stdout.try_clone().unwrap());
        let bytes = Chance::new().lines(1 << 15);
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            for byte in line {
                stdin.write_all(std::slice::from_ref(byte)).unwrap();
            }
            if line.ends_with(b"\n") {
                let mut back = Vec::new();
                stdout.read_until(b'\n', &mut back).unwrap();
                assert!(back == line);
            }
        }
        drop(stdin);
        assert!(server.ended().0.success());
    }
}

#[test]
fn a_line_of_the_relay_follows_no_unfinished_one() {
    for option in ["--lazy", "--restart"] {
        let asks =
            r#"read line; printf '{"jsonrpc":"2.0","id":7,"method":"ping"}\n{"half'; exit 3"#;
        let mut command = wrapped(&[option, "sh", "-c", asks]);
        let mut server = Server::start(&mut command, BOTH[0]);
        let call = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}"#;
        let stdin = server.stdin.as_mut().unwrap();
        stdin.write_all(&[&call[..], b"\n"].concat()).unwrap();
        let mut lines = BufReader::new(server.stdout.try_clone().unwrap()).lines();
        let mut line = || lines.next().unwrap().unwrap();
        assert!(line().contains("ping"));
        assert_eq!(line(), "{\"half", "{option}");
        let cancelled: serde_json::Value = serde_json::from_str(&line()).unwrap();
        assert_eq!(cancelled["params"]["requestId"], 7, "{option}");
    }
}

#[test]
fn either_direction_can_end_first() {
    for streams in BOTH {
        // The server's first: what it has said arrives, and it is ended, for it can answer nothing.
        let script = "echo first; exec >&-; while read line; do :; done; exit 3";
        let server = Server::start(&mut wrapped(&["--lazy", "sh", "-c", script]), streams);
        let mut stdin = server.stdin.as_ref().unwrap();
        stdin.write_all(b"x\n").unwrap();
        assert_eq!(all_said(&server), b"first\n");
        assert_eq!(server.ended().0.code(), Some(3), "{streams:?}");
        // The host's first: what the server says then still arrives.
        let script = "cat >/dev/null; echo after";
        let mut server = Server::start(&mut wrapped(&["--restart", "sh", "-c", script]), streams);
        let stdin = half_close(&mut server, streams);
        assert_eq!(all_said(&server), b"after\n");
        assert!(server.ended().0.success(), "{streams:?}");
        drop(stdin);
    }
}

/// Writes lines until the relay takes none and waits for somebody; returns the number of bytes that it took.
fn fill(server: &mut Server, line: &[u8]) -> usize {
    let relay = server.child.id();
    let stdin = server.stdin.as_mut().unwrap();
    fcntl(&*stdin, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    let mut taken = 0;
    loop {
        while let Ok(len) = stdin.write(line) {
            taken += len;
        }
        comes_to_rest(relay);
        match stdin.write(line) {
            Ok(len) => taken += len,
            Err(_) => return taken,
        }
    }
}

#[test]
fn a_host_that_does_not_read_and_a_server_that_does_not_cost_no_memory() {
    for streams in BOTH {
        let line = format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"n\",\"x\":\"{}\"}}\n",
            "x".repeat(1000)
        );
        // Nobody reads what it says, and it reads nothing.
        let flood = format!("while :; do printf '%s' '{line}'; done");
        let mut server = Server::start(
            &mut wrapped(&["--restart", "--grace", "300ms", "sh", "-c", &flood]),
            streams,
        );
        let taken = fill(&mut server, line.as_bytes());
        println!(
            "{streams:?}: {taken} bytes were taken, peak {} kB",
            peak(&server)
        );
        assert!(taken < 2 << 20, "{taken}");
        assert!(peak(&server) < 30 << 10, "{} kB", peak(&server));
        // It is still heard, and ends although nothing moves.
        server.signal(Signal::SIGTERM);
        server.stdin = None;
        server.ended();
    }
}

#[test]
fn the_end_of_a_host_that_a_deaf_server_holds_up_is_seen() {
    for streams in BOTH {
        let mut server = Server::start(
            &mut wrapped(&[
                "--restart",
                "--grace",
                "300ms",
                "sh",
                "-c",
                "trap '' TERM; while :; do sleep 1; done",
            ]),
            streams,
        );
        fill(&mut server, &[&[b'x'; 511][..], b"\n"].concat());
        server.stdin = None;
        server.ended();
    }
}

#[test]
fn fifty_generations_of_a_host_that_closes_nothing_are_fifty_small_processes() {
    let mut place = Place::new();
    place.learn();
    let mut sessions: Vec<_> = (0..50)
        .map(|_| place.session(&["--lazy", "--idle", "200ms"]))
        .collect();
    for session in &mut sessions {
        session.open();
        session.call("tools/list", serde_json::json!({}));
    }
    assert_eq!(place.heard(), [""; 0], "no server at all");
    let private = |session: &crate::session::Session| -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", session.server.child.id()))
            .unwrap();
        let lines = text
            .lines()
            .filter(|line| line.starts_with("Private_Dirty"));
        lines
            .map(|line| {
                line.split_whitespace()
                    .nth(1)
                    .unwrap()
                    .parse::<u64>()
                    .unwrap()
            })
            .sum()
    };
    let most = sessions.iter().map(private).max().unwrap();
    println!("private memory of a relay: at most {most} kB");
    assert!(most < 2048, "{most} kB");
    for session in &sessions {
        comes_to_rest(session.server.child.id());
    }
    // The last generation is the one that is used.
    sessions.last_mut().unwrap().work();
    place.alive.ready(1);
    place.alive.nobody_is_left();
    for session in sessions {
        assert!(session.end().success());
    }
}
