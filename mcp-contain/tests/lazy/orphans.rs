//! A relay whose host was killed: it holds the FIFO itself, so that it is counted among those that may be left.

use std::io::{Read as _, Write as _};
use std::process::Command;
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::chance::Chance;
use crate::host::{Alive, BOTH, Server, Streams, in_time};

/// The behaviour of servers at the time.
const SERVERS: &[&str] = &[
    // Says without end what nobody reads, and reads nothing.
    r#"printf x >&9; while :; do printf '%s\n' '{"jsonrpc":"2.0","method":"notifications/message"}'; done"#,
    "trap '' TERM; printf x >&9; while :; do read x <&8; done",
    "printf x >&9; exec cat",
    // There is no server: it is not started, or not any more.
    "printf x >&9; kill -KILL $$",
];

/// A host that can be killed, which has started a relay: the relay holds the FIFO.
fn host(alive: &Alive, options: &[&str], server: &str, streams: Streams) -> Server {
    let directory = alive.file("");
    let script =
        r#"cd "$1"; exec 9>alive 3<&0; shift; "$@" <&3 3<&- & exec 0<&- 1>&- 2>&- 3<&-; wait"#;
    let mut command = Command::new("sh");
    command.args(["-c", script, "host"]).arg(directory);
    command.arg(env!("CARGO_BIN_EXE_mcp-contain")).args(options);
    command.args(["--grace", "300ms", "sh", "-c", &alive.script(server)]);
    Server::start(&mut command, streams)
}

#[test]
fn a_relay_whose_host_was_killed_ends_although_its_streams_stay_open() {
    for server in SERVERS {
        for (options, streams) in [&["--restart"][..], &["--lazy", "--restart"]]
            .into_iter()
            .zip(BOTH)
        {
            println!("{server}, {options:?}, {streams:?}");
            let mut alive = Alive::new();
            let mut host = host(&alive, options, server, streams);
            let stdin = host.stdin.as_mut().unwrap();
            // A relay that is asleep wakes up, and the third server has something in flight.
            stdin
                .write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\"}\n")
                .unwrap();
            alive.ready(1);
            if server.ends_with("kill -KILL $$") {
                // The relay says so to its host.
                let mut stdout = host.stdout.try_clone().unwrap();
                in_time(move || stdout.read_exact(&mut [0])).unwrap();
            }
            host.signal(Signal::SIGKILL);
            // The streams are open until then.
            alive.nobody_is_left();
            host.child.wait().unwrap();
        }
    }
}

#[test]
fn no_relay_outlives_a_host_that_is_killed_at_any_instant() {
    let mut chance = Chance::new();
    let mut below = |limit| chance.below(limit);
    let mut killed: Vec<_> = (0..40)
        .map(|_| {
            let alive = Alive::new();
            let server = SERVERS[below(4) as usize];
            let options = [&["--restart"][..], &["--lazy"]][below(2) as usize];
            let mut host = host(&alive, options, server, BOTH[below(2) as usize]);
            let stdin = host.stdin.as_mut().unwrap();
            // It may have ended.
            let _ = stdin.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\"}\n");
            thread::sleep(Duration::from_micros(below(30_000)));
            host.signal(Signal::SIGKILL);
            host.child.wait().unwrap();
            // With its streams.
            drop(host);
            alive
        })
        .collect();
    killed.iter_mut().for_each(Alive::nobody_is_left);
}
