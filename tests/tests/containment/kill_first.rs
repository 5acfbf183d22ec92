//! Forced ends on a machine where nobody can be listed: they wait for nothing.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use mcp_launcher_local::{Isolation, LocalLauncher};
use mcp_lifecycle_core::launch::{LaunchedServer, ServerIdentity};
use mcp_lifecycle_core::terminate::{EndReason, Phase, ServerHandle, TerminationPolicy};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::gate::Gate;
use crate::guardian_killed::guardian_of;
use crate::stage::{LIMIT, Stage, has_cgroups, perform, perform_alone, plays};

pub(crate) fn leader_of(server: &LaunchedServer) -> Pid {
    let ServerIdentity::Process { pid, .. } = server.terminator().identity() else {
        panic!("a process");
    };
    Pid::from_raw(i32::try_from(pid).unwrap())
}

fn stage(isolation: Isolation) -> Stage {
    let mut stage = Stage::new();
    stage.launcher = Arc::new(LocalLauncher::builder().isolation(isolation).build());
    stage
}

const LEVELS: [Isolation; 2] = [Isolation::ProcessGroup, Isolation::Guardian];

#[test]
fn a_forced_end_waits_for_no_listing() {
    perform("kill_first::ordered");
}

#[test]
#[ignore = "a role"]
fn ordered() {
    if !plays() {
        return;
    }
    let gate = Gate::new();
    for isolation in LEVELS {
        let stage = stage(isolation);
        let server = stage.launch(&["helper"]);
        stage.wait_for("server");
        stage.wait_for("helper");
        let closed = gate.close("");
        let terminator = Arc::clone(server.terminator());
        let ordered = stage
            .runtime
            .spawn(async move { terminator.force_end().await });
        stage.nobody_is_left();
        drop(closed);
        stage.wait("the order", ordered).unwrap().unwrap();
        stage.wait("the proof", server.terminator().gone()).unwrap();
    }
}

#[test]
fn a_drop_waits_for_no_listing() {
    perform("kill_first::dropped");
}

#[test]
#[ignore = "a role"]
fn dropped() {
    if !plays() {
        return;
    }
    let gate = Gate::new();
    let stage = stage(Isolation::ProcessGroup);
    // Whether its leader lives, or has left somebody behind.
    for leads in [true, false] {
        let server = stage.launch(&["helper"]);
        stage.wait_for("server");
        stage.wait_for("helper");
        let closed = gate.close("");
        let terminator = Arc::clone(server.terminator());
        if !leads {
            kill(leader_of(&server), Signal::SIGKILL).unwrap();
            stage.wait("the exit", terminator.exited());
        }
        let dropped = thread::spawn(move || drop(server));
        stage.nobody_is_left();
        // The host goes on as well.
        dropped.join().unwrap();
        drop(closed);
        stage.wait("the proof", terminator.gone()).unwrap();
    }
}

#[test]
fn who_cannot_be_listed_keeps_no_other_server_waiting() {
    perform("kill_first::beside_another");
}

#[test]
#[ignore = "a role"]
fn beside_another() {
    if !plays() {
        return;
    }
    let gate = Gate::new();
    let stage = stage(Isolation::ProcessGroup);
    let servers = [(); 2].map(|()| {
        let server = stage.launch(&["helper"]);
        stage.wait_for("server");
        stage.wait_for("helper");
        server
    });
    let closed = gate.close("");
    kill(leader_of(&servers[0]), Signal::SIGKILL).unwrap();
    stage.wait("the exit", servers[0].terminator().exited());
    closed.somebody_waits();
    // Its exit is heard by the thread that waits for all servers.
    kill(leader_of(&servers[1]), Signal::SIGKILL).unwrap();
    stage.wait("the other's exit", servers[1].terminator().exited());
    for server in &servers {
        let terminator = server.terminator();
        stage.wait("the order", terminator.force_end()).unwrap();
    }
    stage.nobody_is_left();
    drop(closed);
    for server in &servers {
        stage.wait("the proof", server.terminator().gone()).unwrap();
    }
}

#[test]
fn who_was_seen_before_the_kill_is_named_after_it() {
    perform("kill_first::named");
}

#[test]
#[ignore = "a role"]
fn named() {
    if !plays() {
        return;
    }
    let stage = stage(Isolation::ProcessGroup);
    let server = stage.launch(&["sh-wrapper", "--ignore-eof", "--ignore-term"]);
    stage.wait_for("wrapper");
    stage.wait_for("server");
    let policy = TerminationPolicy::default()
        .eof_grace(Duration::from_millis(5))
        .kill_confirmation(LIMIT);
    let parts = server.into_parts();
    let (handle, _stdin) = ServerHandle::new("named", parts.stdin, parts.terminator);
    let ended = handle.terminate(&policy, EndReason::Shutdown);
    let report = stage.wait("the end", ended).unwrap();
    assert_eq!(report.ended_in(), Some(Phase::ForceEnd), "{report}");
    let names: Vec<_> = report.gone.swept.iter().map(|it| &*it.name).collect();
    assert_eq!(names, ["mcp-fixture"], "{report}");
}

#[test]
fn who_does_not_answer_keeps_no_proof_back() {
    perform_alone("kill_first::stuck_search");
}

#[test]
#[ignore = "a role"]
fn stuck_search() {
    if !plays() {
        return;
    }
    let gate = Gate::new();
    let stage = stage(Isolation::Guardian);
    let servers = [(); 2].map(|()| {
        let server = stage.launch(&["ignore-eof-term"]);
        stage.wait_for("server");
        server
    });
    let guardian = guardian_of(&servers[0]);
    let exits = Arc::clone(servers[0].terminator());
    let handles = servers.map(|server| {
        let parts = server.into_parts();
        ServerHandle::new("held", parts.stdin, parts.terminator)
    });
    // Whoever is left is looked for by the environments of all that are younger.
    let mut stranger = Command::new("sleep");
    // Without this role's streams, whose end is waited for also where it fails.
    let stranger = stranger.arg("1000").stdout(Stdio::null());
    let mut stranger = stranger.stderr(Stdio::null()).spawn().unwrap();
    let closed = gate.close(format!("/{}/environ", stranger.id()).leak());
    kill(guardian, Signal::SIGKILL).unwrap();
    closed.somebody_waits();
    stage.wait("the exit", exits.exited());
    for (at, (handle, _stdin)) in handles.iter().enumerate() {
        let policy = TerminationPolicy::default()
            .eof_grace(Duration::from_millis(10))
            .term_grace(Duration::from_millis(10))
            .kill_confirmation(LIMIT / 2)
            .report_limit(LIMIT / 8);
        let ended = handle.terminate(&policy, EndReason::Shutdown);
        let ended = stage.wait("the end", ended);
        // Without a cgroup there is no proof when the guardian was killed.
        assert!(ended.is_ok() || (at == 0 && !has_cgroups()), "{ended:?}");
    }
    stage.nobody_is_left();
    drop(closed);
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}
