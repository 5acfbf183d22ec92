//! `mcp_tree::Tree`: however it is ended, nothing of it is left.

use std::io::{BufRead as _, BufReader, Lines};
use std::os::fd::AsFd as _;
use std::process::{ChildStdout, Command, Stdio};
use std::time::Duration;

use mcp_tree::{Options, Tree};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::support::{LIMIT, Rig};

const ROWS: &[(&str, &[&str])] = &[
    ("plain", &["server"]),
    ("ignore-eof-term", &["server"]),
    ("helper", &["server", "helper"]),
    ("setsid", &["server", "setsid"]),
    ("double-fork", &["server", "daemon"]),
    ("wiped-env", &["server", "daemon", "wiped-env"]),
    ("leader-exits-first", &["server", "helper"]),
];

fn spawn(rig: &Rig, behaviour: &str) -> Tree {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcp-fixture"));
    command.args([behaviour, "--alive", &rig.alive.address()]);
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    Tree::spawn(command, Options::default()).unwrap()
}

/// Starts each row, and ends it when all of it runs.
fn each(name: &str, end: impl Fn(Tree)) {
    let rig = Rig::new(name);
    for (behaviour, roles) in ROWS {
        let tree = spawn(&rig, behaviour);
        rig.alive.block_on(async {
            for role in *roles {
                rig.accept(role).await;
            }
        });
        end(tree);
    }
    rig.finish();
}

fn ended(mut tree: Tree) {
    let ended = tree.wait(LIMIT).unwrap();
    assert!(!ended.gone.evidence.is_empty(), "{ended:?}");
    assert!(tree.proof().is_some() && tree.survivors().unwrap().is_empty());
    assert_eq!(tree.id(), None);
}

#[test]
fn a_tree_that_is_killed_leaves_nothing() {
    each("tree, killed", |tree| {
        tree.kill().unwrap();
        ended(tree);
    });
}

#[test]
fn a_tree_that_is_asked_and_then_killed_leaves_nothing() {
    each("tree, asked", |mut tree| {
        tree.ask().unwrap();
        if tree.wait(Duration::from_millis(100)).is_err() {
            tree.kill().unwrap();
        }
        ended(tree);
    });
}

#[test]
fn a_tree_that_is_dropped_leaves_nothing() {
    each("tree, dropped", drop);
}

#[test]
fn a_tree_that_lives_is_named_by_its_wait() {
    let rig = Rig::new("tree, named");
    let mut tree = spawn(&rig, "ignore-eof-term");
    rig.alive
        .block_on(async { drop(rig.accept("server").await) });
    let unproven = tree.wait(Duration::ZERO).unwrap_err();
    let pid = tree.id().unwrap().to_string();
    assert!(unproven.to_string().contains(&pid), "{unproven}");
    assert_eq!(unproven.survivors.len(), 1);
    assert!(tree.proof().is_none());
    tree.kill().unwrap();
    ended(tree);
    rig.finish();
}

#[test]
fn the_end_of_a_tree_is_an_event_of_its_descriptor() {
    let rig = Rig::new("tree, descriptor");
    let tree = spawn(&rig, "setsid");
    rig.alive
        .block_on(async { drop(rig.accept("setsid").await) });
    let ready = |tree: &Tree, limit: PollTimeout| {
        poll(&mut [PollFd::new(tree.as_fd(), PollFlags::POLLIN)], limit).unwrap()
    };
    assert_eq!(ready(&tree, PollTimeout::ZERO), 0);
    tree.kill().unwrap();
    assert_eq!(ready(&tree, PollTimeout::NONE), 1);
    ended(tree);
    rig.finish();
}

const HOST: &str = "MCP_TEST_TREE_HOST";

#[test]
#[ignore = "the role of the host in the test below"]
fn role() {
    if std::env::var_os(HOST).is_none() {
        return;
    }
    let mut command = Command::new("sh");
    let script = "trap 'echo saved; exit' TERM; echo ready; sleep 1000 & wait";
    command.args(["-c", script]);
    let mut options = Options::default();
    options.grace = LIMIT;
    let mut tree = Tree::spawn(command, options).unwrap();
    let _ = tree.wait(Duration::MAX);
}

#[test]
fn a_tree_has_its_grace_when_its_host_is_killed() {
    let rig = Rig::new("tree, grace");
    let mut host = Command::new(std::env::current_exe().unwrap())
        .args(["tree::role", "--exact", "--ignored", "--nocapture"])
        .env(HOST, "")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(host.stdout.take().unwrap()).lines();
    until(&mut lines, "ready");
    host.kill().unwrap();
    host.wait().unwrap();
    until(&mut lines, "saved");
    assert!(lines.next().is_none(), "all of it has ended");
    drop(lines);
    rig.finish();
}

fn until(lines: &mut Lines<BufReader<ChildStdout>>, end: &str) {
    let found = lines.by_ref().any(|line| line.unwrap().ends_with(end));
    assert!(found, "{end}");
}
