//! Somebody kills the guardian, and what it guarded is given to another parent.

use std::fs;

use mcp_lifecycle_core::launch::{ErrorChain, Evidence};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, setsid};

use crate::guardian_killed::{adopts_its_orphans, guardian_of};
use crate::stage::{LIMIT, Stage, has_cgroups, leaves, perform, perform_alone, plays};

/// `acts`, and what it does first.
fn acts<'a>(acts: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["acts", "--ignore-eof", "--ignore-term"];
    args.extend(acts.iter().flat_map(|act| ["--act", act]));
    args
}

#[test]
fn who_was_given_to_another_parent_keeps_the_proof_back_until_it_is_gone() {
    perform("adopted::wiped");
}

/// In a PID namespace: no process there sees the leader of the host's session.
#[test]
fn an_adopted_process_in_a_session_without_a_leader_is_found() {
    perform_alone("adopted::wiped");
}

#[test]
#[ignore = "a role"]
fn wiped() {
    if !plays() {
        return;
    }
    adopts_its_orphans();
    let stage = Stage::new();
    // It left the cgroup first, and no mark leads to its daemon, or to what shares the host's session.
    for does in [
        &["leave-cgroup", "wiped"][..],
        &["leave-cgroup", "wiped-orphan"],
        &["wiped"],
        &["wiped-orphan"],
    ] {
        let server = stage.launch(&acts(does));
        let wiped = stage.alive.accept("wiped-env", LIMIT);
        let wiped = stage.alive.block_on(wiped).unwrap();
        stage.wait_for("server");
        let terminator = server.terminator().clone();
        // The host leaves the session that its server is in, where it can.
        if does == ["wiped-orphan"] {
            setsid().unwrap();
        }
        kill(guardian_of(&server), Signal::SIGKILL).unwrap();
        let last = stage.wait("the last word", terminator.gone());
        if has_cgroups() && does.len() == 1 {
            // The cgroup has ended it.
            let gone = last.unwrap();
            assert!(wiped.is_dead());
            assert!(gone.evidence.contains(&Evidence::CgroupEmpty), "{gone:?}");
        } else {
            assert!(!wiped.is_dead(), "nobody can know whose it is");
            for last in [last, {
                stage.wait("the order", terminator.force_end()).unwrap();
                stage.wait("the last word", terminator.gone())
            }] {
                let error = last.unwrap_err();
                let text = ErrorChain(&error).to_string();
                assert!(text.contains(&wiped.pid().to_string()), "{does:?}: {text}");
            }
            let pid = Pid::from_raw(wiped.pid().cast_signed());
            kill(pid, Signal::SIGKILL).unwrap();
            waitpid(pid, None).unwrap();
            stage.wait("the order", terminator.force_end()).unwrap();
            let gone = stage.wait("the proof", terminator.gone()).unwrap();
            assert!(gone.evidence.contains(&Evidence::NoneAdopted), "{gone:?}");
        }
        stage.nobody_is_left();
    }
    // The cgroup next door that the act has made.
    for leaf in leaves() {
        let _ = fs::remove_dir(leaf);
    }
}
