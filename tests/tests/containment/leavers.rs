//! A process that has left its cgroup is not forgotten with that cgroup.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use crate::orphans::{kill_with_guardians, launched, ledgers, reap, start_host};
use crate::stage::{self, LIMIT, Stage, has_cgroups, perform, plays};

#[test]
fn a_host_that_only_launches_forgets_nobody_who_left_its_cgroup() {
    perform("leavers::remembered");
}

#[test]
#[ignore = "a role"]
fn remembered() {
    if !plays() || !has_cgroups() {
        return println!("without cgroups there is none to leave");
    }
    let stage = Stage::new();
    let mut host = start_host(&stage, &["double-fork"], false);
    let servers = launched(&mut host);
    let daemon = stage.alive.accept("daemon", LIMIT);
    let daemon = stage.alive.block_on(daemon).unwrap();
    let own = PathBuf::from(env::var_os("MCP_TEST_CGROUP").unwrap());
    fs::write(own.join("cgroup.procs"), daemon.pid().to_string()).unwrap();
    kill_with_guardians(host, &servers);
    assert_eq!(ledgers(), 1);
    for _ in 0..2 {
        let mut next = stage::role("unseen::launches");
        let output = next.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(!daemon.is_dead(), "this is about a survivor");
    }
    // Those of the two are not there any more, or have nobody on record.
    let report = reap(&stage);
    assert!(!report.ended.is_empty(), "forgotten: {report:?}");
    stage.nobody_is_left();
    assert_eq!(ledgers(), 0, "settled: {report:?}");
}
