//! A process that keeps whoever reads its environment waiting: here, whatever opens it waits.

use std::process::{Command, Stdio};

use mcp_launcher_local::inventory;

use crate::gate::Gate;
use crate::inventory::find;
use crate::orphans::{end, launched, ledgers, reap, start_host};
use crate::stage::{Stage, perform, plays};

#[test]
fn one_that_keeps_readers_waiting_keeps_nobody_else_from_an_answer() {
    perform("silent::stranger");
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
    let mut stranger = Command::new("sleep");
    let mut stranger = stranger.arg("1000").stdin(Stdio::null()).spawn().unwrap();
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
    assert!(named.why.contains("waiting"), "{named:?}");
    assert_eq!(ledgers(), 2, "kept: {report:?}");
    // One is ended by hand with its proof: the stranger is not below its guardian.
    let own = find(server.terminator().identity().pid().unwrap()).unwrap();
    let stopped = inventory::stop(&own, crate::stage::LIMIT).unwrap();
    assert!(stopped.is_gone(), "{stopped:?}");
    stage.nobody_is_left();
    drop(closed);
    let report = reap(&stage);
    assert!(report.unknown.is_empty(), "{report:?}");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}
