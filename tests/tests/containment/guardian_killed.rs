//! Somebody kills the guardian, which is what keeps the server in order.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Instant;

use mcp_lifecycle_core::launch::LaunchedServer;
use nix::libc;
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::ended::proof_beside_strangers;
use crate::gate::ask_about;
use crate::left::acts;
use crate::stage::{LIMIT, Stage, has_cgroups, leaves, perform, plays};

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
        let gone = proof_beside_strangers(&stage, &**server.terminator());
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
    parent_of(main_of(server).as_raw().cast_unsigned())
}

/// The server's own process.
pub(crate) fn main_of(server: &LaunchedServer) -> Pid {
    let pid = server.terminator().identity().pid().unwrap();
    Pid::from_raw(pid.cast_signed())
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

#[test]
fn the_exit_of_one_that_ends_while_it_is_being_killed_is_told() {
    perform("guardian_killed::ends_meanwhile");
}

#[test]
#[ignore = "a role"]
fn ends_meanwhile() {
    if !plays() {
        return;
    }
    let main = Arc::new(AtomicI32::new(0));
    let victim = Arc::clone(&main);
    // It ends after it was seen alive and before it is held.
    ask_about(&[libc::SYS_pidfd_open], move |listener, call| {
        let victim = victim.load(Ordering::Relaxed);
        if victim != 0 && call.args[0] == u64::try_from(victim).unwrap() {
            let _ = kill(Pid::from_raw(victim), Signal::SIGKILL);
            let end = Instant::now() + LIMIT;
            while is_running(victim) && Instant::now() < end {
                std::thread::yield_now();
            }
        }
        listener.answer(call, None);
    });
    let stage = Stage::new();
    let server = stage.launch(&acts(&["no-pdeath"]));
    stage.wait_for("server");
    let guardian = guardian_of(&server);
    main.store(main_of(&server).as_raw(), Ordering::Relaxed);
    kill(guardian, Signal::SIGKILL).unwrap();
    stage.wait("the exit", server.terminator().exited());
    stage.nobody_is_left();
}

pub(crate) fn is_running(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}
