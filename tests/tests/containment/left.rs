//! Servers whose processes are not where they were put: in another cgroup, in a
//! foreign PID namespace. What is empty then is not all there was.

use std::fs;
use std::io::Read;
use std::process::{Child, Command, Stdio};

use mcp_lifecycle_conformance::alive::Holder;
use mcp_lifecycle_core::launch::Evidence;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::ended::proof_beside_strangers;
use crate::guardian_killed::{adopts_its_orphans, guardian_of};
use crate::stage::{LIMIT, Stage, fixture_program, has_cgroups, leaves, perform, plays};

/// `acts`, and what it does first.
pub(crate) fn acts<'a>(acts: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["acts", "--ignore-eof", "--ignore-term"];
    args.extend(acts.iter().flat_map(|act| ["--act", act]));
    args
}

#[test]
fn who_had_left_the_cgroup_is_ended_before_the_proof() {
    perform("left::cgroup");
}

#[test]
#[ignore = "a role"]
fn cgroup() {
    if !plays() || !has_cgroups() {
        return;
    }
    adopts_its_orphans();
    let stage = Stage::new();
    for (does, roles) in [
        // The server itself lives on when its guardian is killed.
        // (The helper is there so that the test knows how far the server is.)
        (
            &["leave-cgroup", "no-pdeath", "helper"][..],
            &["helper", "server"][..],
        ),
        // It dies with the guardian, and its daemon was born outside.
        (&["leave-cgroup", "daemon"], &["daemon", "server"]),
    ] {
        let server = stage.launch(&acts(does));
        for role in roles {
            stage.wait_for(role);
        }
        let terminator = server.terminator().clone();
        kill(guardian_of(&server), Signal::SIGKILL).unwrap();
        let gone = stage.wait("the proof", terminator.gone()).unwrap();
        let alive = stage.alive.alive_at_this_moment(LIMIT);
        let alive = stage.alive.block_on(alive).unwrap();
        assert!(
            alive.is_empty(),
            "{does:?}: {alive:?} live in spite of {gone:?}"
        );
        drop(server);
    }
    // The cgroup next door that the act has made.
    for leaf in leaves() {
        let _ = fs::remove_dir(leaf);
    }
}

#[test]
fn what_was_orphaned_in_a_foreign_namespace_is_ended_before_the_proof() {
    perform("left::namespace");
}

#[test]
#[ignore = "a role"]
fn namespace() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    let Some(holder) = Abroad::start(&stage) else {
        eprintln!("SKIPPED: no PID namespace can be made here");
        return;
    };
    let enter = format!("enter-namespace:{}", holder.0.id());
    for does in [&[enter.as_str()][..], &["leave-cgroup", &enter]] {
        let server = stage.launch(&acts(does));
        for role in ["nsenter", "daemon", "server"] {
            stage.wait_for(role);
        }
        let terminator = server.terminator().clone();
        stage.wait("the order", terminator.force_end()).unwrap();
        let gone = stage.wait("the proof", terminator.gone()).unwrap();
        let alive = stage.alive.alive_at_this_moment(LIMIT);
        let alive = stage.alive.block_on(alive).unwrap();
        let is_holder = |it: &Holder| it.pid == holder.0.id() || it.role == "foreign-init";
        assert!(
            alive.iter().all(is_holder),
            "{does:?}: {alive:?} live in spite of {gone:?}"
        );
        let evidence: &[_] = match has_cgroups() {
            true => &[
                Evidence::Reaped,
                Evidence::CgroupEmpty,
                Evidence::NoneMarked,
            ],
            false => &[Evidence::Reaped, Evidence::NoneMarked],
        };
        assert_eq!(gone.evidence, evidence, "{does:?}: {gone:?}");
        assert_eq!(gone.swept.len(), gone.swept_count, "{gone:?}");
        assert!(
            gone.swept.iter().any(|it| it.name == "mcp-fixture"),
            "the daemon is counted and named: {gone:?}"
        );
    }
    drop(holder);
    stage.nobody_is_left();
    // The cgroup next door that the act has made.
    for leaf in leaves() {
        let _ = fs::remove_dir(leaf);
    }
}

/// The first process of a PID namespace that is nobody's server.
struct Abroad(Child);

impl Abroad {
    fn start(stage: &Stage) -> Option<Self> {
        let mut command = Command::new(fixture_program());
        command.args(["foreign-namespace", "--alive", &stage.alive.address()]);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let hello = stage.alive.accept("foreign-init", LIMIT);
        if let Err(error) = stage.alive.block_on(hello) {
            child.kill().unwrap();
            child.wait().unwrap();
            let mut said = String::new();
            let _ = child.stderr.take().unwrap().read_to_string(&mut said);
            assert!(said.contains("unshare"), "{error}: {said}");
            return None;
        }
        Some(Self(child))
    }
}

impl Drop for Abroad {
    fn drop(&mut self) {
        let pid = self.0.id();
        // Its child, which it has not reaped: the first process in there.
        let inside = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        for init in inside.split_whitespace() {
            let _ = kill(Pid::from_raw(init.parse().unwrap()), Signal::SIGKILL);
        }
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn a_proof_that_was_missed_for_want_of_descriptors_is_had_later() {
    perform("left::descriptors");
}

#[test]
#[ignore = "a role"]
fn descriptors() {
    if !plays() {
        return;
    }
    adopts_its_orphans();
    let stage = Stage::new();
    let server = stage.launch(&acts(&["no-pdeath", "daemon"]));
    for role in ["daemon", "server"] {
        stage.wait_for(role);
    }
    let guardian = guardian_of(&server);
    let terminator = server.terminator().clone();
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    // Not even one that is closed meanwhile can be used again.
    setrlimit(Resource::RLIMIT_NOFILE, 3, hard).unwrap();
    kill(guardian, Signal::SIGKILL).unwrap();
    let missed = stage.wait("the last word", terminator.gone());
    assert!(missed.is_err(), "nobody could look: {missed:?}");
    setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
    let named = stage.wait("the names", terminator.survivors()).unwrap();
    stage.wait("the order", terminator.force_end()).unwrap();
    // An attempt of the shortage may be under way still, and is shared: not even who adopts was found out.
    let _ = stage.wait("the last word", terminator.gone());
    let gone = proof_beside_strangers(&stage, &*terminator);
    assert!(gone.is_ok(), "{gone:?}, {named:?}");
    stage.nobody_is_left();
    assert!(leaves().is_empty(), "{:?}", leaves());
}

#[test]
fn members_of_cgroups_inside_are_counted_and_named() {
    perform("left::inside");
}

#[test]
#[ignore = "a role"]
fn inside() {
    if !plays() || !has_cgroups() {
        return;
    }
    adopts_its_orphans();
    let stage = Stage::new();
    let server = stage.launch(&acts(&["sub-cgroup", "setsid"]));
    for role in ["sub-cgroup", "setsid", "server"] {
        stage.wait_for(role);
    }
    let terminator = server.terminator().clone();
    let named = stage.wait("the names", terminator.survivors()).unwrap();
    assert_eq!(named.len(), 3, "{named:?}");
    kill(guardian_of(&server), Signal::SIGKILL).unwrap();
    let gone = stage.wait("the proof", terminator.gone()).unwrap();
    assert_eq!(gone.swept_count, 2, "{gone:?}");
    let evidence = [
        Evidence::CgroupEmpty,
        Evidence::NoneMarked,
        Evidence::NoneAdopted,
    ];
    assert_eq!(gone.evidence, evidence);
    stage.nobody_is_left();
}
