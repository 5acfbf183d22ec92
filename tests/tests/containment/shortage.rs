//! Searches and proofs of a host that has hardly any descriptors left.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::process::Command;
use std::sync::Arc;

use mcp_launcher_local::{Isolation, LocalLauncher};
use mcp_lifecycle_core::launch::{Evidence, LaunchedServer, ReapReport};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::ended::proof_beside_strangers;
use crate::guardian_held::Tracer;
use crate::guardian_killed::{adopts_its_orphans, guardian_of, main_of};
use crate::orphans::shelf;
use crate::stage::{Stage, has_cgroups, leaves, perform, plays};
use crate::unseen::{alive, ends_all, ledger, orphans_of};

#[test]
fn with_any_number_of_free_descriptors_nobody_is_forgotten() {
    perform("shortage::few_descriptors");
}

#[test]
#[ignore = "a role"]
fn few_descriptors() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    limit_descriptors(128);
    for free in 0..16 {
        orphans_of(&stage, &["double-fork"; 3], &["daemon"; 3]);
        let ledger = ledger();
        let fillers = every_descriptor_but(free);
        let report = stage.wait("the search", stage.launcher.reap_orphans());
        drop(fillers);
        // A ledger that could not be read is blamed for nothing.
        let text = format!("{report:?}");
        let blames = ["no ledger of this version", "not a file of this user's"];
        assert!(!blames.iter().any(|it| text.contains(it)), "{free}: {text}");
        // It says so when it does not know, and what it does not know stays.
        let complete = report.as_ref().is_ok_and(ReapReport::is_complete);
        let left = alive(&stage);
        let ended = left == 0 && !ledger.exists();
        assert_eq!(complete, ended, "{free}: {left} left: {report:?}");
        assert!(ended || ledger.exists(), "{free}: forgotten: {report:?}");
        ends_all(&stage);
    }
}

#[test]
fn with_any_number_of_free_descriptors_a_dead_guardian_leads_to_a_proof() {
    perform("shortage::few_descriptors_and_no_guardian");
}

#[test]
#[ignore = "a role"]
fn few_descriptors_and_no_guardian() {
    if !plays() {
        return;
    }
    adopts_its_orphans();
    let mut stage = Stage::new();
    limit_descriptors(128);
    // The kernel's order to a cgroup passes by who has no main thread.
    for (shape, role) in [("double-fork", "daemon"), ("headless", "headless")] {
        for free in 0..8 {
            let server = stage.launch(&[shape]);
            stage.wait_for(role);
            let guardian = guardian_of(&server);
            leads_to_a_proof(&stage, &server, guardian, free);
        }
    }
    stage.launcher = Arc::new(
        LocalLauncher::builder()
            .isolation(Isolation::PidNamespace)
            .build(),
    );
    for free in 0..8 {
        let server = stage.launch(&["plain"]);
        stage.wait_for("server");
        let guardian = guardian_of(&server);
        // The first process of a namespace does not hear of its guardian's end then.
        kill(main_of(&server), Signal::SIGSTOP).unwrap();
        leads_to_a_proof(&stage, &server, guardian, free);
    }
}

/// Kills the guardian while so many descriptors are free: there is a proof, at once or by
/// the next order.
fn leads_to_a_proof(stage: &Stage, server: &LaunchedServer, guardian: Pid, free: usize) {
    let fillers = every_descriptor_but(free);
    kill(guardian, Signal::SIGKILL).unwrap();
    let first = stage.wait("the last word", server.terminator().gone());
    drop(fillers);
    if first.is_err() {
        stage
            .wait("a new end", server.terminator().force_end())
            .unwrap();
        let again = proof_beside_strangers(stage, &**server.terminator());
        again.unwrap_or_else(|error| panic!("{free}: {error:?}, after {first:?}"));
    }
    stage.nobody_is_left();
}

#[test]
fn cgroups_in_cgroups_take_no_descriptor_for_each() {
    perform("shortage::deep_cgroups");
}

#[test]
#[ignore = "a role"]
fn deep_cgroups() {
    if !plays() || !has_cgroups() {
        return println!("without cgroups there are none inside");
    }
    adopts_its_orphans();
    let stage = Stage::new();
    let server = stage.launch(&["double-fork"]);
    stage.wait_for("daemon");
    let [leaf] = &leaves()[..] else {
        panic!("one server, one cgroup");
    };
    let depth = fs::read_to_string(leaf.join("cgroup.max.depth")).unwrap();
    assert_eq!(depth, "64\n");
    // It does not have to keep that.
    fs::write(leaf.join("cgroup.max.depth"), "max").unwrap();
    let deepest = leaf.join(["a"; 200].join("/"));
    fs::create_dir_all(&deepest).unwrap();
    let daemon = stage
        .alive
        .alive()
        .into_iter()
        .find(|it| it.role == "daemon");
    let daemon = daemon.unwrap().pid.to_string();
    fs::write(deepest.join("cgroup.procs"), daemon).unwrap();
    limit_descriptors(100);
    kill(guardian_of(&server), Signal::SIGKILL).unwrap();
    let gone = stage.wait("the last word", server.terminator().gone());
    gone.unwrap();
    stage.nobody_is_left();
    assert!(leaves().is_empty());
}

#[test]
fn a_cgroup_that_could_not_be_looked_at_leaves_the_word_of_the_guardian() {
    perform("shortage::word_of_a_guardian");
}

#[test]
#[ignore = "a role"]
fn word_of_a_guardian() {
    if !plays() || !has_cgroups() {
        return println!("without cgroups there is none to look at");
    }
    let stage = Stage::new();
    let server = stage.launch(&["ignore-eof-term"]);
    stage.wait_for("server");
    // Inside, and no descendant of the guardian's.
    let mut inside = Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = Pid::from_raw(inside.id().cast_signed());
    fs::write(leaves()[0].join("cgroup.procs"), pid.to_string()).unwrap();
    let tracer = Tracer::until_exit(pid);
    limit_descriptors(3);
    let terminator = server.terminator().clone();
    stage.wait("the order", terminator.force_end()).unwrap();
    let gone = stage.wait("the last word", terminator.gone());
    gone.expect_err("without descriptors nobody can look");
    limit_descriptors(128);
    drop(tracer);
    inside.wait().unwrap();
    stage.wait("a new end", terminator.force_end()).unwrap();
    let gone = stage.wait("the proof", terminator.gone()).unwrap();
    assert_eq!(gone.evidence[0], Evidence::Reaped, "{gone:?}");
    stage.nobody_is_left();
}

/// All that are free, but for so many.
pub(crate) fn every_descriptor_but(free: usize) -> Vec<File> {
    let mut fillers: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    fillers.truncate(fillers.len() - free);
    fillers
}

pub(crate) fn limit_descriptors(soft: u64) {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
}

#[test]
fn two_thousand_ledgers_do_with_few_descriptors() {
    perform("shortage::many_ledgers");
}

#[test]
#[ignore = "a role"]
fn many_ledgers() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    orphans_of(&stage, &["double-fork"], &["daemon"]);
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let namespace = fs::metadata("/proc/self/ns/pid").unwrap().ino();
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let start = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .nth(19)
        .unwrap();
    for nonce in 0..2_000 {
        let text = format!(
            "mcp-lifecycle 2 4194303 {start} {} {nonce:016x} {namespace} -\n0000000000000001 0 0 -\n",
            boot.trim()
        );
        let mut file = File::options();
        let file = file.write(true).create_new(true).mode(0o600);
        let path = shelf().join(format!("{nonce:016x}.ledger"));
        file.open(path).unwrap().write_all(text.as_bytes()).unwrap();
    }
    limit_descriptors(256);
    ends_all(&stage);
}
