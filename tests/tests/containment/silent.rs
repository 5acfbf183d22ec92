//! A process that keeps whoever reads its environment waiting: here, whatever opens it waits.

use std::process::{Command, Stdio};
use std::time::Instant;

use mcp_tree::inventory;

use crate::gate::Gate;
use crate::inventory::find;
use crate::orphans::{end, launched, ledgers, reap, start_host};
use crate::stage::{Stage, perform_alone, plays};

#[test]
fn one_that_keeps_readers_waiting_keeps_nobody_else_from_an_answer() {
    perform_alone("silent::stranger");
}

#[test]
#[ignore = "a role"]
fn stranger() {
    if !plays() {
        return;
    }
    let gate = Gate::new();
    let stage = Stage::new();
    let mut host = start_host(&stage, &["setsid"], true);
    launched(&mut host);
    for role in ["server", "setsid"] {
        stage.wait_for(role);
    }
    let server = stage.launch(&["plain"]);
    stage.wait_for("server");
    // Without this role's streams, whose end is waited for also where it fails.
    let mut stranger = Command::new("sleep");
    let stranger = stranger.arg("1000").stdin(Stdio::null());
    let stranger = stranger.stdout(Stdio::null()).stderr(Stdio::null());
    let mut stranger = stranger.spawn().unwrap();
    let environment: &'static str = format!("/{}/environ", stranger.id()).leak();
    let closed = gate.close(environment);
    // What runs is seen.
    let own = find(server.terminator().identity().pid().unwrap());
    closed.somebody_waits();
    assert!(own.is_some_and(|own| own.guardian.is_some()));
    // What a dead host has left is ended, and who did not answer is named.
    end(host);
    let report = reap(&stage);
    assert!(!report.ended.is_empty(), "{report:?}");
    let id = stranger.id().to_string();
    let named = report.unknown.iter().find(|it| it.what.id == id);
    let named = named.unwrap_or_else(|| panic!("{report:?}"));
    assert!(named.why.contains("blocks"), "{named:?}");
    assert_eq!(ledgers(), 2, "kept: {report:?}");
    // One is ended by hand with its proof: the stranger is not below its guardian.
    let own = find(server.terminator().identity().pid().unwrap()).unwrap();
    let stopped = inventory::stop(&own, crate::stage::LIMIT).unwrap();
    assert!(stopped.is_gone(), "{stopped:?}");
    stage.nobody_is_left();
    drop(closed);
    // The thread that was kept waiting may not have run yet.
    let end = Instant::now() + crate::stage::LIMIT;
    loop {
        let report = reap(&stage);
        if report.unknown.is_empty() {
            break;
        }
        assert!(Instant::now() < end, "{report:?}");
    }
    // Its launcher removes its cgroup once it has the proof.
    stage.wait("the proof", server.terminator().gone()).unwrap();
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}
