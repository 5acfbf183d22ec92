//! The census sees what it is there to see.

mod common;

use std::fs::File;
use std::process::Command;

use common::{LIMIT, Rig};
use mcp_lifecycle_conformance::census::{Census, assert_same};

#[test]
fn a_descriptor_too_many_is_named() {
    let rig = Rig::new();
    let before = Census::take().without_threads();
    assert_same(&before, &Census::take());
    let file = File::open("/proc/self/status").unwrap();
    let difference = before.difference(&Census::take()).unwrap().to_string();
    assert!(
        difference.contains("/status: 0 before, 1 after"),
        "{difference}"
    );
    drop(file);
    before.settle(LIMIT).unwrap();
    rig.finish();
}

#[test]
fn a_zombie_is_told_from_a_child() {
    let rig = Rig::new();
    let before = Census::take().without_threads();
    let mut child = Command::new(env!("CARGO_BIN_EXE_mcp-fixture"))
        .args(["linger", "--alive", &rig.alive.address()])
        .spawn()
        .unwrap();
    let conn = rig.accept("server");
    let during = Census::take();
    assert_eq!((during.child_count(), during.zombie_count()), (1, 0));
    child.kill().unwrap();
    rig.wait_dead(&conn);
    while Census::take().zombie_count() == 0 {
        std::thread::yield_now();
    }
    let difference = before.difference(&Census::take()).unwrap().to_string();
    assert!(difference.contains("+ zombie"), "{difference}");
    child.wait().unwrap();
    before.settle(LIMIT).unwrap();
    rig.finish();
}

#[test]
#[should_panic(expected = "thread spare")]
fn a_thread_too_many_fails() {
    let _rig = Rig::new();
    let before = Census::take();
    let (_keep, gone) = std::sync::mpsc::channel::<()>();
    let (ready, is_ready) = std::sync::mpsc::channel();
    let _thread = std::thread::Builder::new()
        .name("spare".to_owned())
        .spawn(move || {
            ready.send(()).unwrap();
            gone.recv()
        })
        .unwrap();
    is_ready.recv().unwrap();
    assert_same(&before, &Census::take());
}
