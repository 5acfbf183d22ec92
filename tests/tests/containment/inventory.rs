//! What a person sees of the servers of this machine, and how one of them is ended by hand.

use std::io::Read;
use std::process::Child;
use std::time::Duration;

use mcp_lifecycle_core::launch::ServerSpec;
use mcp_tree::inventory::{self, HostState, KnownServer};

use crate::left::acts;
use crate::orphans::{end, kill_with_guardians, launched, reap, start_host};
use crate::stage::{self, LIMIT, Stage, fixture_program, has_cgroups, perform, plays};

pub(crate) const GRACE: Duration = Duration::from_millis(100);

/// What a host starts: a shape of the fixture, `acts/` and what it does, or the same behind `wiped/`, which
/// has wiped the environment of the server's own process.
pub(crate) fn spec_of(shape: &str, observer: &str) -> ServerSpec {
    let (wiped, shape) = match shape.strip_prefix("wiped/") {
        Some(shape) => (true, shape),
        None => (false, shape),
    };
    let args = match shape.strip_prefix("acts/") {
        Some(does) => acts(&does.split('/').collect::<Vec<_>>()),
        None => vec![shape],
    };
    if !wiped {
        return stage::fixture(&args, observer);
    }
    ServerSpec::builder("wiped", "/bin/sh")
        .args(["-c", "exec env -i \"$0\" \"$@\""])
        .arg(fixture_program())
        .args(args)
        .args(["--alive", observer])
        .build()
        .unwrap()
}

/// Ends a host that has no server any more. It removes a cgroup a moment after the proof, or leaves
/// that to the next host.
pub(crate) fn end_settled(stage: &Stage, host: Child) {
    end(host);
    let report = reap(stage);
    assert!(report.failed.is_empty(), "{report:?}");
}

/// The server with this process.
pub(crate) fn find(leader: u32) -> Option<KnownServer> {
    let seen = inventory::look().unwrap();
    let mut servers = seen.servers.into_iter();
    servers.find(|server| server.processes.iter().any(|process| process.pid == leader))
}

#[test]
fn a_server_is_seen_with_all_that_is_its_own_and_ended_by_hand() {
    perform("inventory::by_hand");
}

#[test]
#[ignore = "a role"]
fn by_hand() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    let mut host = start_host(&stage, &["plain", "ignore-eof-term"], false);
    let pids = launched(&mut host);
    for role in ["server", "server"] {
        stage.wait_for(role);
    }
    let [first, second] = [pids[0], pids[1]].map(|pid| find(pid).unwrap());
    assert_eq!(
        (first.host.pid, first.host.state),
        (host.id(), HostState::Alive)
    );
    assert_eq!(
        (first.leader, first.processes.len()),
        (Some(pids[0]), 1),
        "{first:?}"
    );
    assert_eq!(
        (first.in_cgroup, first.guardian.is_some()),
        (has_cgroups(), true)
    );
    assert!(first.age() < LIMIT && first.memory() > 100_000, "{first:?}");
    assert!(first.id != second.id && first.id.len() == 16);
    let words = first.processes[0].command_line();
    assert!(words.iter().any(|word| word == "--alive"), "{words:?}");

    let report = inventory::stop(&second, GRACE).unwrap();
    assert!(report.is_gone() && report.took >= GRACE, "{report:?}");
    assert_eq!(
        (report.asked, report.killed),
        (1, 1),
        "it is deaf to SIGTERM"
    );
    assert!(
        find(pids[1]).is_none() && find(pids[0]).is_some(),
        "one and no other"
    );
    let report = inventory::stop(&first, LIMIT).unwrap();
    assert!(report.is_gone() && report.took < LIMIT, "{report:?}");
    assert_eq!((report.asked, report.killed), (1, 0), "this one is not");
    stage.nobody_is_left();
    let again = inventory::stop(&first, GRACE).unwrap();
    assert_eq!((again.asked, again.killed, again.is_gone()), (0, 0, true));
    end_settled(&stage, host);
}

#[test]
fn what_a_dead_host_left_is_known_as_such() {
    perform("inventory::of_a_dead_host");
}

#[test]
#[ignore = "a role"]
fn of_a_dead_host() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    let mut host = start_host(&stage, &["setsid"], true);
    launched(&mut host);
    for role in ["server", "setsid"] {
        stage.wait_for(role);
    }
    let dead = host.id();
    end(host);
    // Its own process may have ended with its input; the other one stays.
    let seen = inventory::look().unwrap().servers;
    let left = seen.into_iter().find(|it| it.host.pid == dead).unwrap();
    assert_eq!((left.host.state, left.guardian), (HostState::Dead, None));
    assert!(inventory::stop(&left, GRACE).unwrap().is_gone());
    stage.nobody_is_left();
}

#[test]
fn who_has_left_the_cgroup_is_killed_as_well() {
    perform("inventory::out_of_the_cgroup");
}

#[test]
#[ignore = "a role"]
fn out_of_the_cgroup() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    let mut host = start_host(&stage, &["setsid"], false);
    let pids = launched(&mut host);
    for role in ["server", "setsid"] {
        stage.wait_for(role);
    }
    let server = find(pids[0]).unwrap();
    let helper = server
        .processes
        .iter()
        .find(|it| it.pid != pids[0])
        .unwrap();
    if let Some(outside) = std::env::var_os("MCP_TEST_CGROUP") {
        let outside = std::path::Path::new(&outside).join("cgroup.procs");
        std::fs::write(outside, helper.pid.to_string()).unwrap();
    }
    kill_with_guardians(host, &pids);
    let report = inventory::stop(&server, GRACE).unwrap();
    assert!(report.is_gone() && report.killed >= 1, "{report:?}");
    assert!(report.took < Duration::from_secs(10), "{report:?}");
    stage.nobody_is_left();
    // The empty cgroup is for the next host, which this one is as well.
    crate::orphans::reap(&stage);
}

#[test]
fn who_asks_from_inside_of_a_server_is_refused() {
    perform("inventory::from_inside");
}

#[test]
#[ignore = "a role"]
fn from_inside() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    let server = stage.launch_role("inventory::ends_its_own");
    stage.wait_for("refused");
    server.terminator().kill_now();
    stage.wait("the proof", server.terminator().gone()).unwrap();
}

/// A server that looks for itself and asks for its own end.
#[test]
#[ignore = "a role"]
fn ends_its_own() {
    if !plays() {
        return;
    }
    let own = find(std::process::id()).unwrap();
    let refused = inventory::stop(&own, GRACE).unwrap_err();
    let is_refused = refused.to_string().contains("started by the server itself");
    stage::say_hello(if is_refused { "refused" } else { "wrong" });
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn one_that_does_not_say_whose_it_is_is_not_taken_for_gone() {
    perform("inventory::unreadable");
}

#[test]
#[ignore = "a role"]
fn unreadable() {
    if !plays() || has_cgroups() {
        return println!("with a cgroup it is inside");
    }
    let stage = Stage::new();
    let mut host = start_host(&stage, &["acts/undumpable"], false);
    let pids = launched(&mut host);
    for role in ["server", "undumpable"] {
        stage.wait_for(role);
    }
    let server = find(pids[0]).unwrap();
    // While its guardian lives, whoever is not below it is a stranger.
    let report = inventory::stop(&server, GRACE).unwrap();
    assert!(report.is_gone() && report.asked == 2, "{report:?}");
    stage.nobody_is_left();
    end_settled(&stage, host);

    let mut host = start_host(&stage, &["acts/undumpable"], false);
    let pids = launched(&mut host);
    for role in ["server", "undumpable"] {
        stage.wait_for(role);
    }
    let server = find(pids[0]).unwrap();
    kill_with_guardians(host, &pids);
    let report = inventory::stop(&server, GRACE).unwrap();
    assert!(!report.is_gone(), "{report:?}");
    let unknown = report.unknown.unwrap();
    assert!(unknown.contains("may belong to it"), "{unknown}");
}

#[test]
fn a_server_that_wiped_its_own_environment_is_known_by_its_record() {
    perform("inventory::on_record");
}

#[test]
#[ignore = "a role"]
fn on_record() {
    if !plays() || has_cgroups() {
        return println!("with a cgroup it is inside");
    }
    let stage = Stage::new();
    let mut host = start_host(&stage, &["wiped/acts/no-pdeath/helper"], false);
    let pids = launched(&mut host);
    for role in ["helper", "server"] {
        stage.wait_for(role);
    }
    kill_with_guardians(host, &pids);
    let server = find(pids[0]).expect("it is on record, and lives");
    assert_eq!((server.guardian, server.leader), (None, Some(pids[0])));
    assert_eq!(server.processes.len(), 2, "with its helper: {server:?}");
    let report = inventory::stop(&server, Duration::ZERO).unwrap();
    assert!(report.is_gone() && report.asked == 2, "{report:?}");
    stage.nobody_is_left();
}

#[test]
fn a_grace_may_be_as_long_as_one_likes() {
    perform("inventory::long_grace");
}

#[test]
#[ignore = "a role"]
fn long_grace() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    let mut host = start_host(&stage, &["plain"], false);
    let pids = launched(&mut host);
    stage.wait_for("server");
    let report = inventory::stop(&find(pids[0]).unwrap(), Duration::MAX).unwrap();
    assert!(report.is_gone(), "{report:?}");
    end_settled(&stage, host);
}
