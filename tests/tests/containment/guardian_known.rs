//! A guardian is known as one where its server's environment is wiped, or long.

use std::process::Child;

use mcp_lifecycle_core::launch::ServerSpec;
use mcp_tree::inventory;
use nix::sys::signal::{Signal, kill};

use crate::guardian_held::wait_for_state;
use crate::guardian_killed::{guardian_of, main_of, parent_of};
use crate::inventory::{GRACE, end_settled, find};
use crate::orphans::{end, launched, ledgers, reap, start_host};
use crate::stage::{LIMIT, Stage, fixture_program, leaves, perform, plays};

/// A host whose server has wiped its environment, and the server's process.
fn host_of_a_wiped_server(stage: &Stage) -> (Child, u32) {
    let mut host = start_host(stage, &["wiped-env"], false);
    let pids = launched(&mut host);
    for role in ["server", "wiped-env"] {
        stage.wait_for(role);
    }
    (host, pids[0])
}

#[test]
fn who_wiped_its_environment_is_ended_by_hand_as_the_rest() {
    perform("guardian_known::wiped");
}

#[test]
#[ignore = "a role"]
fn wiped() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    let (host, leader) = host_of_a_wiped_server(&stage);
    let server = find(leader).unwrap();
    let report = inventory::stop(&server, GRACE).unwrap();
    assert!(report.is_gone(), "{report:?}");
    let asked = report.asked;
    let alive = stage.alive.alive_at_this_moment(LIMIT);
    let alive = stage.alive.block_on(alive).unwrap();
    assert!(alive.is_empty(), "{alive:?} live in spite of {report:?}");
    assert!(asked >= 2, "{report:?}");
    end_settled(&stage, host);
}

#[test]
fn a_stopped_guardian_of_a_dead_host_goes_on() {
    perform("guardian_known::stopped");
}

#[test]
#[ignore = "a role"]
fn stopped() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    let (host, leader) = host_of_a_wiped_server(&stage);
    let guardian = parent_of(leader);
    kill(guardian, Signal::SIGSTOP).unwrap();
    wait_for_state(guardian, 'T');
    end(host);
    let report = reap(&stage);
    stage.nobody_is_left();
    assert!(report.failed.is_empty(), "{report:?}");
    reap(&stage);
    assert!(leaves().is_empty(), "{:?}", leaves());
    assert_eq!(ledgers(), 0, "settled: {report:?}");
}

#[test]
fn a_guardian_is_known_however_long_the_environment_of_its_server_is() {
    perform("guardian_known::long_environment");
}

#[test]
#[ignore = "a role"]
fn long_environment() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    // Before and after the mark, as names are sorted.
    let long = "x".repeat(40_000);
    let spec = ServerSpec::builder("long", fixture_program())
        .args(["wiped-env", "--alive", &stage.alive.address()])
        .env("A_LONG_ONE", &long)
        .env("Z_LONG_ONE", &long)
        .env("Z_SHORT_ONE", "x")
        .build()
        .unwrap();
    let server = stage.launch_spec(&spec);
    for role in ["server", "wiped-env"] {
        stage.wait_for(role);
    }
    let pid = main_of(&server).as_raw().unsigned_abs();
    let known = find(pid).unwrap();
    let guardian = guardian_of(&server).as_raw().unsigned_abs();
    assert_eq!(known.guardian, Some(guardian), "{known:?}");
    let report = inventory::stop(&known, GRACE).unwrap();
    assert!(report.is_gone() && report.asked >= 2, "{report:?}");
    stage.nobody_is_left();
    drop(server);
}
