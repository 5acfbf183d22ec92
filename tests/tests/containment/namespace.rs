//! Servers in PID namespaces.

use std::fs;
use std::sync::Arc;

use mcp_launcher_local::{Isolation, LocalLauncher};
use mcp_lifecycle_core::launch::{
    Evidence, ExitStatus, Guarantee, LaunchContext, Reach, ServerSpec,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpgid, getsid};

use crate::guardian_killed::{guardian_of, main_of};
use crate::stage::{Stage, leaves, perform, plays};

/// A stage with namespaces; `None` where the machine refuses them, which it
/// then says.
fn stage() -> Option<Stage> {
    if !plays() {
        return None;
    }
    let mut stage = Stage::new();
    let launcher = LocalLauncher::builder()
        .isolation(Isolation::PidNamespace)
        .build();
    let containment = stage.wait("the probe", launcher.probe());
    let required = containment.require(Guarantee::Terminate(Reach::Container));
    stage.launcher = Arc::new(launcher);
    if let Err(unavailable) = required {
        let text = unavailable.to_string();
        assert!(text.contains("no PID namespace"), "{text}");
        eprintln!("skipped: {text}");
        return None;
    }
    Some(stage)
}

#[test]
fn everything_in_a_namespace_ends_with_it() {
    perform("namespace::ends");
}

#[test]
#[ignore = "a role"]
fn ends() {
    let Some(stage) = stage() else { return };
    for (shape, role) in [
        ("plain", "server"),
        ("ignore-eof-term", "server"),
        ("setsid", "setsid"),
        ("wiped-env", "wiped-env"),
        ("burst", "burst-198"),
    ] {
        let server = stage.launch(&[shape]);
        assert_eq!(server.terminator().semantics(), stage.launcher.semantics());
        stage.wait_for(role);
        let terminator = server.terminator().clone();
        stage.wait("the signal", terminator.force_end()).unwrap();
        stage.wait("the proof", terminator.gone()).unwrap();
        stage.nobody_is_left();
        assert!(leaves().is_empty(), "{:?}", leaves());
        drop(server);
    }
}

#[test]
fn a_namespace_stays_in_the_hosts_session() {
    perform("namespace::session");
}

#[test]
#[ignore = "a role"]
fn session() {
    let Some(stage) = stage() else { return };
    let server = stage.launch(&["plain"]);
    stage.wait_for("server");
    let (init, guardian) = (main_of(&server), guardian_of(&server));
    let children = fs::read_to_string(format!("/proc/{init}/task/{init}/children")).unwrap();
    let main = Pid::from_raw(children.trim().parse().unwrap());
    for pid in [init, main] {
        assert_eq!(getsid(Some(pid)), getsid(None));
        assert_eq!(getpgid(Some(pid)), Ok(pid));
    }
    assert_eq!(getsid(Some(guardian)), Ok(guardian));
    stage
        .wait("the order", server.terminator().force_end())
        .unwrap();
    stage.wait("the proof", server.terminator().gone()).unwrap();
    stage.nobody_is_left();
}

#[test]
fn the_exit_and_what_outlives_it_are_told_apart() {
    perform("namespace::exits");
}

#[test]
#[ignore = "a role"]
fn exits() {
    let Some(stage) = stage() else { return };
    let code = |server: &mcp_lifecycle_core::LaunchedServer| {
        let terminator = server.terminator().clone();
        stage.wait("the exit", terminator.exited())
    };
    let failing = stage.launch(&["crash-loop", "--code", "7"]);
    assert_eq!(code(&failing), ExitStatus::Code(7));
    stage
        .wait("the proof", failing.terminator().gone())
        .unwrap();
    // The main process goes at once; what it leaves is deaf, and is ended.
    let parts = stage.launch(&["double-fork"]).into_parts();
    stage.wait_for("daemon");
    drop(parts.stdin);
    let status = stage.wait("the exit", parts.terminator.exited());
    assert_eq!(status, ExitStatus::Code(0));
    stage
        .wait("the signal", parts.terminator.force_end())
        .unwrap();
    stage.wait("the proof", parts.terminator.gone()).unwrap();
    stage.nobody_is_left();
    let missing = ServerSpec::builder("none", "/no/such/program").build();
    let launched = stage.wait(
        "the launch",
        stage
            .launcher
            .launch(&missing.unwrap(), &LaunchContext::new()),
    );
    assert!(launched.is_err());
}

#[test]
fn a_killed_guardian_takes_the_namespace_along() {
    perform("namespace::guardian_killed");
}

#[test]
#[ignore = "a role"]
fn guardian_killed() {
    let Some(stage) = stage() else { return };
    for (shape, role) in [("setsid", "setsid"), ("wiped-env", "wiped-env")] {
        let server = stage.launch(&[shape]);
        stage.wait_for(role);
        kill(guardian_of(&server), Signal::SIGKILL).unwrap();
        // The kernel's doing: nobody here has lifted a finger.
        stage.nobody_is_left();
        let gone = stage.wait("the last word", server.terminator().gone());
        assert_eq!(gone.unwrap().evidence, [Evidence::NamespaceEnded]);
        assert!(leaves().is_empty(), "{:?}", leaves());
    }
}
