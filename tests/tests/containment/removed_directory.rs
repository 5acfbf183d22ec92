//! A host whose working directory has been removed.

use std::{env, fs};

use crate::stage::{Stage, perform, plays};

#[test]
fn a_launch_without_a_directory_starts_where_the_host_is() {
    perform("removed_directory::launched");
}

#[test]
#[ignore = "a role"]
fn launched() {
    if !plays() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    env::set_current_dir(directory.path()).unwrap();
    fs::remove_dir(directory.path()).unwrap();
    assert!(env::current_dir().is_err());
    let stage = Stage::new();
    let server = stage.launch(&["plain"]);
    stage.wait_for("server");
    let terminator = server.terminator();
    stage.wait("the order", terminator.force_end()).unwrap();
    stage.wait("the proof", terminator.gone()).unwrap();
    stage.nobody_is_left();
}
