//! A server that a search cannot see is not taken for absent: it stays on record, and
//! is ended by the next one that can.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use nix::unistd::geteuid;

use crate::orphans::{end, kill_with_guardians, launched, ledgers, reap, shelf, start_host};
use crate::stage::{self, LIMIT, Stage, has_cgroups, perform, plays};

/// Looks, and prints what it found.
#[test]
#[ignore = "a role"]
fn reaper() {
    if plays() {
        println!("\nfound {:?}", reap(&Stage::new()));
    }
}

/// Starts a server and ends it.
#[test]
#[ignore = "a role"]
fn launches() {
    if plays() {
        let stage = Stage::new();
        drop(stage.launch(&["plain"]));
        stage.nobody_is_left();
    }
}

/// Plays a role in a world of its own; what it prints.
fn within(wrapper: &[&str], role: &str) -> String {
    let mut command = stage::role_within(wrapper, role);
    command.env_remove("MCP_TEST_CGROUP").stdin(Stdio::null());
    let output = command.output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let passed = output.status.success() && stdout.contains("1 passed");
    assert!(passed, "{role}: {output:?}");
    stdout
}

/// Starts a server and ends it in a world of its own, which leaves `ledger` alone.
///
/// There may be no proof of that end there. Then it stays on record, and seen from
/// yet another PID namespace, in which these tests may run, it stays unknown.
fn launches_within(wrapper: &[&str], ledger: &Path) {
    within(wrapper, "unseen::launches");
    assert!(ledger.exists(), "{wrapper:?}: tidied away");
    for other in fs::read_dir(shelf()).unwrap() {
        let other = other.unwrap().path();
        if other != ledger {
            fs::remove_file(other).unwrap();
        }
    }
    for leaf in stage::leaves() {
        // Its own; the others have somebody inside.
        let _ = fs::remove_dir(leaf);
    }
}

/// A PID namespace of its own, and a user namespace where it takes that.
fn unshare(more: &[&'static str]) -> Vec<&'static str> {
    let mut wrapper = vec!["unshare", "--pid", "--fork"];
    if !geteuid().is_root() {
        wrapper.extend(["--user", "--map-current-user"]);
    }
    wrapper.extend(more);
    wrapper
}

/// The one ledger that there is.
pub(crate) fn ledger() -> PathBuf {
    let mut ledgers = fs::read_dir(shelf()).unwrap();
    let ledger = ledgers.next().unwrap().unwrap().path();
    assert!(ledgers.next().is_none());
    ledger
}

pub(crate) fn alive(stage: &Stage) -> usize {
    let alive = stage.alive.alive_at_this_moment(LIMIT);
    stage.alive.block_on(alive).unwrap().len()
}

pub(crate) fn orphans_of(stage: &Stage, shapes: &[&str], roles: &[&str]) {
    let mut host = start_host(stage, shapes, true);
    launched(&mut host);
    for role in roles {
        stage.wait_for(role);
    }
    end(host);
}

/// Looks from here, where everything is visible.
pub(crate) fn ends_all(stage: &Stage) {
    let report = reap(stage);
    stage.nobody_is_left();
    assert!(report.is_complete(), "{report:?}");
    assert_eq!(ledgers(), 0, "settled: {report:?}");
}

#[test]
fn from_another_pid_namespace_nobody_is_taken_for_gone() {
    perform("unseen::other_namespace");
}

#[test]
#[ignore = "a role"]
fn other_namespace() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    orphans_of(&stage, &["ignore-eof-term"; 2], &["server"; 2]);
    let before = alive(&stage);
    assert_eq!(before, 2, "this is about survivors");
    let ledger = ledger();
    for (wrapper, why) in [
        (unshare(&["--mount-proc"]), "another PID namespace (pid:["),
        // The numbers in this /proc are other processes' there.
        (unshare(&[]), "the /proc here is that of another"),
    ] {
        let found = within(&wrapper, "unseen::reaper");
        assert!(found.contains(why), "{wrapper:?}: {found}");
        assert!(found.contains("ended: []"), "{wrapper:?}: {found}");
        launches_within(&wrapper, &ledger);
        assert!(ledger.exists(), "{wrapper:?}: {found}");
        assert_eq!(alive(&stage), before, "{wrapper:?}: {found}");
    }
    ends_all(&stage);
}

#[test]
fn where_a_cgroup_is_not_visible_it_is_not_taken_for_gone() {
    perform("unseen::hidden_cgroup");
}

#[test]
#[ignore = "a role"]
fn hidden_cgroup() {
    if !plays() || !has_cgroups() {
        return println!("without cgroups there is none to hide");
    }
    let stage = Stage::new();
    let mut host = start_host(&stage, &["double-fork", "wiped-env"], false);
    let servers = launched(&mut host);
    stage.wait_for("daemon");
    stage.wait_for("wiped-env");
    kill_with_guardians(host, &servers);
    // The servers themselves end with their guardians.
    let until = Instant::now() + LIMIT;
    let before = 3; // the daemon, and two connections of the other one
    while alive(&stage) > before {
        assert!(Instant::now() < until);
    }
    let ledger = ledger();
    let hide = "mount -t tmpfs none /sys/fs/cgroup && exec \"$0\" \"$@\"";
    let container = ["--mount-proc", "--mount", "--cgroup", "sh", "-c", hide];
    // A container with the same directory that only starts a server.
    launches_within(&unshare(&container), &ledger);
    let found = within(&unshare(&container), "unseen::reaper");
    assert!(found.contains("not visible here"), "{found}");
    assert!(ledger.exists(), "{found}");
    assert_eq!(alive(&stage), before, "{found}");
    // Who carries a mark is found without the cgroup, the other one is not.
    let found = within(&["unshare", "--mount", "sh", "-c", hide], "unseen::reaper");
    assert!(found.contains("not visible here"), "{found}");
    assert!(ledger.exists(), "{found}");
    assert_eq!(alive(&stage), 2, "{found}");
    ends_all(&stage);
}

#[test]
fn one_that_a_container_engine_keeps_is_left_to_it() {
    perform("unseen::kept_container");
}

#[test]
#[ignore = "a role"]
fn kept_container() {
    if !plays() || !has_cgroups() {
        return println!("without cgroups there is none to be in");
    }
    let stage = Stage::new();
    orphans_of(&stage, &["double-fork"], &["daemon"]);
    // What an engine does with `--env-file` and the environment of a server.
    let own = PathBuf::from(env::var_os("MCP_TEST_CGROUP").unwrap());
    let scope = own.join(format!("docker-{}.scope", "0123456789abcdef".repeat(4)));
    fs::create_dir(&scope).unwrap();
    let daemon = stage.alive.alive().pop().unwrap().pid;
    let environment = fs::read(format!("/proc/{daemon}/environ")).unwrap();
    let environment = String::from_utf8(environment).unwrap();
    let mark = environment
        .split('\0')
        .find(|line| line.starts_with("MCP_LIFECYCLE_ID="));
    let script = format!(
        "echo 0 > {}/cgroup.procs && exec \"$0\" \"$@\"",
        scope.display()
    );
    let container = [
        "sh",
        "-c",
        &script,
        "unshare",
        "--pid",
        "--fork",
        "env",
        mark.unwrap(),
    ];
    let mut kept = stage::role_within(&container, "unseen::kept");
    kept.env(stage::OBSERVER, stage.alive.address());
    kept.env_remove("MCP_TEST_CGROUP");
    let mut kept = kept
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    stage.wait_for("kept");
    let report = reap(&stage);
    let holders = stage.alive.alive_at_this_moment(LIMIT);
    let holders = stage.alive.block_on(holders).unwrap();
    let roles: Vec<_> = holders.iter().map(|holder| holder.role.as_str()).collect();
    assert_eq!(roles, ["kept"], "{report:?}");
    assert!(!report.spared.is_empty(), "{report:?}");
    fs::write(scope.join("cgroup.kill"), "1").unwrap();
    kept.wait().unwrap();
    // Its child is gone when nobody is inside any more.
    stage::remove_in_time(&scope);
    ends_all(&stage);
}

/// A process in a container.
#[test]
#[ignore = "a role"]
fn kept() {
    if plays() {
        stage::say_hello("kept");
        loop {
            std::thread::park();
        }
    }
}
