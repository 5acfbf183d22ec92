//! Hosts in which something else sees to the ends of children: an ignored
//! SIGCHLD, a thread that reaps whatever there is.

use std::process::Command;

use nix::sys::wait::{WaitPidFlag, waitpid};

use crate::stage::{Stage, has_cgroups, leaves, perform, perform_by, plays};

/// A host that was started with SIGCHLD ignored, which exec passes on.
#[test]
fn an_ignored_sigchld_costs_nothing() {
    perform_by(ignoring, "sigchld::ordinary");
}

fn ignoring(role: Command) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "trap '' CHLD; exec \"$@\"", "sh"]);
    command.arg(role.get_program()).args(role.get_args());
    command.envs(
        role.get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    command
}

#[test]
#[ignore = "a role"]
fn ordinary() {
    if !plays() {
        return;
    }
    as_good_as_ever();
}

#[test]
fn a_thread_that_reaps_every_child_costs_nothing() {
    perform("sigchld::thief");
}

#[test]
#[ignore = "a role"]
fn thief() {
    if !plays() {
        return;
    }
    std::thread::spawn(|| {
        loop {
            // Nobody's children in particular: whatever there is.
            if waitpid(None, Some(WaitPidFlag::empty())).is_err() {
                std::thread::yield_now();
            }
        }
    });
    as_good_as_ever();
}

/// The cgroup is there, the proof is given, nobody and nothing is left.
fn as_good_as_ever() {
    let stage = Stage::new();
    let launcher = mcp_launcher_local::LocalLauncher::new();
    let containment = stage.wait("the probe", launcher.probe());
    assert_eq!(
        containment.fallback.is_none(),
        has_cgroups(),
        "{containment}"
    );
    for shape in ["ignore-eof-term", "double-fork"] {
        let server = stage.launch(&[shape]);
        stage.wait_for("server");
        let terminator = server.terminator().clone();
        drop(server);
        stage.wait("the proof", terminator.gone()).unwrap();
        stage.nobody_is_left();
        assert!(leaves().is_empty(), "{:?}", leaves());
    }
}
