//! `--exclusive`: a start waits for a dying predecessor, and for no other.

use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid};

use crate::host::{Alive, Server, Streams, wrapped};
use crate::levels::guardian;

/// Notes if the server that ran before lives, and then takes its place for good.
const STAYS: &str = "if [ -s pid ] && grep -q . /proc/$(cat pid)/cmdline; then echo both >>both; fi
echo $$ >pid; trap '' TERM; printf . >&9; while :; do read never <&8; done";

/// Kills a wrapper, and waits for its end, which the order is not. It is not reaped.
fn killed(wrapper: &Server) {
    wrapper.signal(Signal::SIGKILL);
    let ended = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
    waitid(Id::Pid(wrapper.pid()), ended).unwrap();
}

struct Place {
    alive: Alive,
    words: Vec<String>,
}

impl Place {
    fn new(options: &[&str]) -> Self {
        let alive = Alive::new();
        let command = ["sh", "-c", &alive.script(STAYS)].map(str::to_owned);
        let words = options.iter().map(|word| (*word).to_owned()).chain(command);
        let words = words.collect();
        Self { alive, words }
    }

    fn command(&self) -> Command {
        wrapped(&self.words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn start(&mut self) -> Server {
        let server = Server::start(&mut self.command(), Streams::Pipes);
        self.alive.ready(1);
        server
    }

    fn were_both(&self) -> bool {
        self.alive.file("both").exists()
    }

    fn end(mut self, server: Server) {
        // At once: there is no grace without a guardian.
        let guardian = guardian(&server);
        server.signal(Signal::SIGKILL);
        kill(guardian, Signal::SIGKILL).unwrap();
        drop(server.ended());
        self.alive.nobody_is_left();
    }
}

#[test]
fn a_start_waits_for_a_predecessor_whose_wrapper_was_killed() {
    for (options, both) in [
        (&["--exclusive", "--grace", "300ms"][..], false),
        (&["--grace", "10s"], true),
    ] {
        let mut place = Place::new(options);
        let first = place.start();
        let its_guardian = guardian(&first);
        killed(&first);
        let second = place.start();
        assert_eq!(place.were_both(), both, "{options:?}");
        if both {
            // It would take its graces.
            kill(its_guardian, Signal::SIGKILL).unwrap();
        }
        place.end(second);
    }
}

#[test]
fn a_start_waits_for_a_predecessor_whose_host_was_killed() {
    let mut place = Place::new(&["--exclusive", "--grace", "300ms"]);
    let command = place.command();
    let mut host = Command::new("sh")
        .args(["-c", "\"$0\" \"$@\"; :"])
        .arg(command.get_program())
        .args(command.get_args())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    place.alive.ready(1);
    host.kill().unwrap();
    host.wait().unwrap();
    let second = place.start();
    assert!(!place.were_both());
    place.end(second);
}

#[test]
fn a_start_ends_what_is_left_of_a_predecessor_without_a_guardian() {
    let mut place = Place::new(&["--exclusive"]);
    let first = place.start();
    let guardian = guardian(&first);
    killed(&first);
    kill(guardian, Signal::SIGKILL).unwrap();
    let second = place.start();
    assert!(!place.were_both());
    place.end(second);
}

#[test]
fn a_server_that_is_in_use_is_neither_waited_for_nor_touched() {
    let mut place = Place::new(&["--exclusive", "--grace", "300ms"]);
    let mut first = place.start();
    let second = place.start();
    assert!(place.were_both());
    assert!(first.child.try_wait().unwrap().is_none());
    killed(&first);
    drop(first.ended());
    place.end(second);
}
