//! The tests of [`super`]: they start the guardian program, which has no code for other machines.

#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]

use std::fs::File;
use std::os::fd::AsFd;

use super::*;
use crate::plan::Plan;
use crate::program::protocol::{MESSAGE_MAX, Report};
use crate::program::{self, Received, SpawnRequest};

/// Starts a server that sleeps. Returns it and the pid of its process.
fn server() -> (Arc<Guarded>, u32) {
    let null = File::open("/dev/null").unwrap();
    let request = SpawnRequest {
        program: c"/bin/sleep",
        argv: &[c"sleep".to_owned(), c"1000".to_owned()],
        ..SpawnRequest::nothing(null.as_fd())
    };
    let guardian = program::spawn(request).unwrap();
    let limit = Duration::from_secs(20);
    assert!(sys::ends_within(guardian.control(), limit).unwrap());
    let mut buffer = [0; MESSAGE_MAX];
    let started = guardian.receive(&mut buffer).unwrap();
    let Received::Report(Report::Started { pid }) = started else {
        panic!("{started:?}");
    };
    let place = Place {
        since: 0,
        identity: None,
        entry: None,
        leaf: Err("none".to_owned()),
        plan: Plan::new(Err("none".into()), None),
    };
    (Guarded::new(guardian, place), pid)
}

#[test]
fn a_stranger_with_the_number_of_a_server_is_not_taken_for_it() {
    let (own, pid) = server();
    own.note_start(pid);
    assert_eq!(own.start_time(), Some(sys::see(pid).unwrap().start_time));
    // Stands for a pid that was reused before the report was read.
    let (late, _) = server();
    late.note_start(std::process::id());
    assert_eq!(late.start_time(), None);
}
