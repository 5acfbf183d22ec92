//! A living host is never touched, also where it is itself the server of a host
//! that has died.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_core::launch::{LaunchContext, ReapReport, Remnant, ServerLauncher};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::orphans::{end, kill_with_guardians, launched, ledgers, reap, start_host};
use crate::stage::{self, LIMIT, OBSERVER, Stage, has_cgroups, leaves, perform, plays};

/// A server that starts the host as its child, as a wrapper does, which then
/// outlives their guardian.
#[test]
#[ignore = "a role"]
fn wrapper() {
    if plays() {
        let mut host = stage::role("nested::idle_host").spawn().unwrap();
        host.wait().unwrap();
    }
}

/// A host that has ended its only server, and waits for work. It has a helper.
#[test]
#[ignore = "a role"]
fn idle_host() {
    if !plays() {
        return;
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let observer = env::var(OBSERVER).unwrap();
    let spec = stage::fixture(&["plain"], &observer);
    drop(
        runtime
            .block_on(LocalLauncher::new().launch(&spec, &LaunchContext::new()))
            .unwrap(),
    );
    let mut helper = std::process::Command::new(stage::fixture_program())
        .args(["linger", "--role", "helper", "--alive", &observer])
        .spawn()
        .unwrap();
    stage::say_hello("nested");
    helper.wait().unwrap();
}

fn roles(stage: &Stage) -> Vec<String> {
    let holders = stage.alive.alive_at_this_moment(LIMIT);
    let holders = stage.alive.block_on(holders).unwrap();
    let mut roles: Vec<_> = holders.into_iter().map(|holder| holder.role).collect();
    roles.sort();
    roles
}

/// Nobody is in two lists, or in one of them twice.
fn names_each_once(report: &ReapReport) {
    let unknown = report.unknown.iter().map(|unknown| &unknown.what);
    let all = report
        .ended
        .iter()
        .chain(&report.failed)
        .chain(&report.spared)
        .chain(unknown);
    let mut ids: Vec<&Remnant> = all.collect();
    ids.sort_by_key(|remnant| &remnant.id);
    assert!(
        ids.windows(2).all(|two| two[0].id != two[1].id),
        "{report:?}"
    );
}

fn contains(list: &[Remnant], pid: u32) -> bool {
    list.iter().any(|remnant| remnant.id == pid.to_string())
}

#[test]
fn an_idle_host_is_not_ended_with_the_host_that_started_it() {
    perform("nested::idle");
}

#[test]
#[ignore = "a role"]
fn idle() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    let mut outer = start_host(&stage, &["double-fork", "role=nested::wrapper"], true);
    launched(&mut outer);
    for role in ["daemon", "helper", "nested"] {
        stage.wait_for(role);
    }
    end(outer);
    spares_the_nested_host(&stage);
}

#[test]
fn an_idle_host_in_the_cgroup_of_a_dead_one_is_not_ended() {
    perform("nested::idle_in_cgroup");
}

#[test]
#[ignore = "a role"]
fn idle_in_cgroup() {
    if !plays() || !has_cgroups() {
        return println!("without cgroups it is the other test");
    }
    let stage = Stage::new();
    let mut outer = start_host(&stage, &["double-fork", "role=nested::wrapper"], false);
    let servers = launched(&mut outer);
    for role in ["daemon", "helper", "nested"] {
        stage.wait_for(role);
    }
    kill_with_guardians(outer, &servers);
    assert!(roles(&stage).len() >= 3, "this is about survivors");
    spares_the_nested_host(&stage);
}

#[test]
fn a_living_hosts_server_in_a_dead_ones_cgroup_is_not_ended() {
    perform("nested::moved_in");
}

#[test]
#[ignore = "a role"]
fn moved_in() {
    if !plays() || !has_cgroups() {
        return println!("without cgroups there is none to be moved to");
    }
    let stage = Stage::new();
    let mut living = start_host(&stage, &["ignore-eof-term"], true);
    let theirs = launched(&mut living)[0];
    stage.wait_for("server");
    let mut dead = start_host(&stage, &["double-fork"], false);
    let servers = launched(&mut dead);
    stage.wait_for("daemon");
    let below = leaf_of(servers[0]).join("sub").join("sub2");
    fs::create_dir_all(&below).unwrap();
    fs::write(below.join("cgroup.procs"), theirs.to_string()).unwrap();
    kill_with_guardians(dead, &servers);
    let report = reap(&stage);
    assert_eq!(roles(&stage), ["server"], "{report:?}");
    assert!(contains(&report.spared, theirs), "{report:?}");
    assert!(!report.ended.is_empty(), "the others: {report:?}");
    names_each_once(&report);
    end(living);
    let report = reap(&stage);
    stage.nobody_is_left();
    // It sits two cgroups further down, and is named all the same.
    assert!(contains(&report.ended, theirs), "{report:?}");
    names_each_once(&report);
    assert!(leaves().is_empty(), "{:?}", leaves());
    assert_eq!(ledgers(), 0, "{report:?}");
}

fn leaf_of(pid: u32) -> PathBuf {
    let cgroups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let path = cgroups
        .lines()
        .find_map(|line| line.strip_prefix("0::"))
        .unwrap();
    let name = Path::new(path).file_name().unwrap();
    leaves()
        .into_iter()
        .find(|leaf| leaf.file_name() == Some(name))
        .unwrap()
}

fn spares_the_nested_host(stage: &Stage) {
    let report = reap(stage);
    assert_eq!(roles(stage), ["helper", "nested"], "{report:?}");
    names_each_once(&report);
    let holders = stage.alive.alive();
    for holder in &holders {
        assert!(
            contains(&report.spared, holder.pid),
            "{holder:?}: {report:?}"
        );
    }
    for holder in &holders {
        kill(
            Pid::from_raw(i32::try_from(holder.pid).unwrap()),
            Signal::SIGKILL,
        )
        .unwrap();
    }
    stage.nobody_is_left();
    // A host lives until the last of its descriptors is closed.
    let until = Instant::now() + LIMIT;
    while ledgers() > 0 {
        let report = reap(stage);
        assert!(
            report.failed.is_empty() && Instant::now() < until,
            "{report:?}"
        );
    }
    assert!(leaves().is_empty(), "{:?}", leaves());
}
