//! Servers in process groups, whose processes leave the group when they like.

use std::sync::Arc;

use mcp_launcher_local::{Isolation, LocalLauncher};
use mcp_lifecycle_core::launch::ServerIdentity;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::{ForkResult, Pid, fork, setsid};

use crate::stage::{self, LIMIT, Stage, perform, plays};

/// A server with a child that leaves the group when it is told to.
#[test]
#[ignore = "a role"]
fn leaves_late() {
    if !plays() {
        return;
    }
    let mut order = SigSet::empty();
    order.add(Signal::SIGUSR1);
    order.thread_block().unwrap();
    // SAFETY: the child uses what the C library makes fit for use after a fork,
    // and nothing that another thread of this process may have locked.
    if let ForkResult::Child = unsafe { fork() }.unwrap() {
        stage::say_hello("inside");
        order.wait().unwrap();
        setsid().unwrap();
        stage::say_hello("outside");
    } else {
        stage::say_hello("server");
    }
    loop {
        std::thread::park();
    }
}

/// A server with a child that ends when it is asked to, and says so.
#[test]
#[ignore = "a role"]
fn ends_when_asked() {
    if !plays() {
        return;
    }
    let mut order = SigSet::empty();
    order.add(Signal::SIGTERM);
    order.thread_block().unwrap();
    // SAFETY: as above.
    if let ForkResult::Child = unsafe { fork() }.unwrap() {
        stage::say_hello("inside");
        order.wait().unwrap();
        stage::say_hello("asked");
        std::process::exit(0);
    }
    stage::say_hello("server");
    loop {
        std::thread::park();
    }
}

#[test]
fn one_that_leaves_its_group_after_the_leader_keeps_no_proof_back() {
    perform("group::left_late");
}

#[test]
#[ignore = "a role"]
fn left_late() {
    if !plays() {
        return;
    }
    let mut stage = Stage::new();
    stage.launcher = Arc::new(
        LocalLauncher::builder()
            .isolation(Isolation::ProcessGroup)
            .build(),
    );
    let server = stage.launch_role("group::leaves_late");
    stage.wait_for("server");
    let inside = stage.alive.accept("inside", LIMIT);
    let inside = stage.alive.block_on(inside).unwrap();
    let inside = Pid::from_raw(i32::try_from(inside.pid()).unwrap());
    let terminator = server.terminator().clone();
    let ServerIdentity::Process { pid, .. } = terminator.identity() else {
        panic!("a process");
    };
    kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGKILL).unwrap();
    // Its group was looked at, and the child was found in it.
    stage.wait("the exit", terminator.exited());
    kill(inside, Signal::SIGUSR1).unwrap();
    stage.wait_for("outside");
    stage.wait("the order", terminator.force_end()).unwrap();
    stage.wait("the proof", terminator.gone()).unwrap();
    // A group is all that a group can end.
    kill(inside, Signal::SIGKILL).unwrap();
    stage.nobody_is_left();
}
