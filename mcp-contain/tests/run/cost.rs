//! Cost of a wrapped server while nothing happens: counted, not timed.

use std::fs;

use crate::host::{Alive, Server, Streams, comes_to_rest, wrapped};

/// The kilobytes of memory that this process shares with nobody.
fn private(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let lines = text.lines().filter(|line| line.starts_with("Private_"));
    let number = |line: &str| line.split_whitespace().nth(1)?.parse::<u64>().ok();
    lines.filter_map(number).sum()
}

#[test]
fn an_idle_wrapper_does_not_wake_up_and_is_small() {
    let mut alive = Alive::new();
    let script = alive.script("printf . >&9; while :; do read never <&8; done");
    let server = Server::start(
        &mut wrapped(&["--name", "idler", "sh", "-c", &script]),
        Streams::Sockets,
    );
    alive.ready(1);
    let shim = server.child.id();
    let children = || fs::read_to_string(format!("/proc/{shim}/task/{shim}/children")).unwrap();
    // The program runs a moment before the wrapper has become the shim.
    comes_to_rest(shim);
    let guardian: u32 = children().trim().parse().expect("one child");
    comes_to_rest(guardian);
    let (ours, both) = (private(shim), private(shim) + private(guardian));
    assert!(ours <= 256 && both <= 512, "{ours} and {both} kB");
    let comm = fs::read_to_string(format!("/proc/{shim}/comm")).unwrap();
    assert_eq!(comm, "mcp-contain\n");
    let words = fs::read_to_string(format!("/proc/{shim}/cmdline")).unwrap();
    let words: Vec<_> = words.split('\0').collect();
    assert_eq!(
        (words[0], words[1], words[9], words[11]),
        ("mcp-contain", "shim", "idler", "sh")
    );
    // Nothing of what the server got to know is in the shim.
    assert_eq!(fs::read(format!("/proc/{shim}/environ")).unwrap(), b"");
    server.signal(nix::sys::signal::Signal::SIGKILL);
    server.ended();
    alive.nobody_is_left();
}
