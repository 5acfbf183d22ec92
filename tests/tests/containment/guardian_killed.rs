//! Somebody kills the guardian, which is what keeps the server in order.

use std::fs;

use mcp_lifecycle_core::launch::{LaunchedServer, ServerIdentity};
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::stage::{Stage, has_cgroups, leaves, perform, plays};

#[test]
fn with_a_cgroup_the_proof_is_given_all_the_same() {
    perform("guardian_killed::killed");
}

#[test]
#[ignore = "a role"]
fn killed() {
    if !plays() {
        return;
    }
    adopts_its_orphans();
    let stage = Stage::new();
    // What leaves: a daemon, a daemon without environment, a whole colony.
    for (shape, role) in [
        ("plain", "server"),
        ("setsid", "setsid"),
        ("double-fork", "daemon"),
        // The kernel's order to a cgroup passes by who has no main thread.
        ("headless", "headless"),
        // Last: where it lives on, it may be of who comes next.
        ("wiped-env", "wiped-env"),
    ] {
        let server = stage.launch(&[shape]);
        stage.wait_for(role);
        kill(guardian_of(&server), Signal::SIGKILL).unwrap();
        let gone = stage.wait("the last word", server.terminator().gone());
        if has_cgroups() || shape != "wiped-env" {
            gone.unwrap_or_else(|error| panic!("{shape}: {error:?}"));
            stage.nobody_is_left();
            assert!(leaves().is_empty(), "{shape}: {:?}", leaves());
        } else {
            // No proof, so no claim; what lives is ended by the test.
            let error = gone.unwrap_err();
            let text = mcp_lifecycle_core::launch::ErrorChain(&error).to_string();
            assert!(text.contains("may be its"), "{text}");
        }
    }
}

/// Has the orphans of this role given to it: those of others, which are running at
/// the same time, are not to be taken for its servers'.
pub(crate) fn adopts_its_orphans() {
    set_child_subreaper(true).unwrap();
}

/// The parent of the server, which lives and is not ours to reap.
pub(crate) fn guardian_of(server: &LaunchedServer) -> Pid {
    let ServerIdentity::Process { pid, .. } = server.terminator().identity() else {
        panic!("a process");
    };
    parent_of(pid)
}

/// The guardian of a server, by the server's pid.
pub(crate) fn parent_of(pid: u32) -> Pid {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    let parent = Pid::from_raw(parent.unwrap().trim().parse().unwrap());
    assert_eq!(
        fs::read_to_string(format!("/proc/{parent}/comm")).unwrap(),
        "mcp-guardian\n"
    );
    parent
}
