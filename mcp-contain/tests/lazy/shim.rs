//! A shim that somebody kills: the server ends by its guardian, and nobody has said so.

use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::session::Place;

#[test]
fn a_shim_that_somebody_killed_proves_nothing_of_its_server() {
    for options in [&["--restart"][..], &["--lazy", "--restart"]] {
        let mut place = Place::new();
        let mut session = place.session(options);
        session.open();
        place.alive.ready(1);
        let relay = session.server.pid();
        let children = fs::read_to_string(format!("/proc/{relay}/task/{relay}/children"));
        let shim = children.unwrap().trim().parse().expect("one child");
        kill(Pid::from_raw(shim), Signal::SIGKILL).unwrap();
        place.alive.nobody_is_left();
        let (status, said) = session.server.ended();
        assert_eq!(status.code(), Some(125), "{status}: {said}");
        assert!(said.contains("the shim of the server was killed"), "{said}");
    }
}
