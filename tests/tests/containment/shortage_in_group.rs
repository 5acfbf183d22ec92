//! Process groups of a host that has hardly any descriptors left.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mcp_launcher_local::{Isolation, LocalLauncher};
use mcp_lifecycle_core::launch::{Gone, LaunchedServer, StepError};
use nix::libc;
use nix::sys::signal::{Signal, kill};

use crate::gate::ask_about;
use crate::guardian_killed::main_of;
use crate::shortage::{every_descriptor_but, limit_descriptors};
use crate::stage::{LIMIT, Stage, perform, plays};

fn stage() -> Stage {
    let mut stage = Stage::new();
    stage.launcher = Arc::new(
        LocalLauncher::builder()
            .isolation(Isolation::ProcessGroup)
            .build(),
    );
    limit_descriptors(128);
    stage
}

fn with_a_helper(stage: &Stage) -> LaunchedServer {
    let server = stage.launch(&["helper"]);
    stage.wait_for("server");
    stage.wait_for("helper");
    server
}

fn last_word(stage: &Stage, server: &LaunchedServer) -> Result<Gone, StepError> {
    stage.wait("the last word", server.terminator().gone())
}

fn force_end(stage: &Stage, server: &LaunchedServer) {
    let forced = stage.wait("the order", server.terminator().force_end());
    forced.unwrap();
}

/// Kills the server's own process when nobody can look at the others.
fn unlisted(stage: &Stage, server: &LaunchedServer) {
    // Not even one that is closed meanwhile can be used again.
    limit_descriptors(3);
    kill(main_of(server), Signal::SIGKILL).unwrap();
    last_word(stage, server).expect_err("without descriptors nobody can look");
}

#[test]
fn a_group_that_could_not_be_listed_is_looked_at_again() {
    perform("shortage_in_group::looked_at_again");
}

#[test]
#[ignore = "a role"]
fn looked_at_again() {
    if !plays() {
        return;
    }
    let stage = stage();
    let server = with_a_helper(&stage);
    unlisted(&stage, &server);
    let survivors = stage.wait("the survivors", server.terminator().survivors());
    survivors.expect_err("who cannot be listed is not absent");
    limit_descriptors(128);
    force_end(&stage, &server);
    last_word(&stage, &server).unwrap();
    stage.nobody_is_left();
}

#[test]
fn a_group_that_cannot_be_listed_has_its_graces() {
    perform("shortage_in_group::has_its_graces");
}

#[test]
#[ignore = "a role"]
fn has_its_graces() {
    if !plays() {
        return;
    }
    let stage = stage();
    let server = stage.launch_role("group::ends_when_asked");
    stage.wait_for("server");
    stage.wait_for("inside");
    unlisted(&stage, &server);
    limit_descriptors(128);
    let asked = stage.wait("the request", server.terminator().request_end());
    asked.unwrap();
    stage.wait_for("asked");
    last_word(&stage, &server).unwrap();
    stage.nobody_is_left();
}

#[test]
fn a_group_without_a_number_is_proven_by_the_next_order() {
    perform("shortage_in_group::without_a_number");
}

#[test]
#[ignore = "a role"]
fn without_a_number() {
    if !plays() {
        return;
    }
    // Before Linux 6.9 a group is known by its number alone.
    ask_about(&[libc::SYS_pidfd_send_signal], |listener, call| {
        listener.answer(call, (call.args[3] != 0).then_some(libc::EINVAL));
    });
    let stage = stage();
    let server = with_a_helper(&stage);
    limit_descriptors(3);
    force_end(&stage, &server);
    let mut gone = last_word(&stage, &server);
    limit_descriptors(128);
    stage.nobody_is_left();
    // Whoever has adopted the helper reaps it when it likes.
    let end = Instant::now() + LIMIT;
    while gone.is_err() {
        assert!(Instant::now() < end, "no proof for ever: {gone:?}");
        force_end(&stage, &server);
        gone = last_word(&stage, &server);
    }
}

#[test]
fn with_any_number_of_free_descriptors_a_group_is_watched_in_peace() {
    perform("shortage_in_group::watched_in_peace");
}

#[test]
#[ignore = "a role"]
fn watched_in_peace() {
    if !plays() {
        return;
    }
    let looks = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&looks);
    ask_about(&[libc::SYS_pidfd_open], move |listener, call| {
        counted.fetch_add(1, Ordering::Relaxed);
        listener.answer(call, None);
    });
    let stage = stage();
    for free in 0..8 {
        let server = with_a_helper(&stage);
        let fillers = every_descriptor_but(free);
        looks.store(0, Ordering::Relaxed);
        kill(main_of(&server), Signal::SIGKILL).unwrap();
        stage.wait("the exit", server.terminator().exited());
        // Time for many; one or two are made, however long that is.
        std::thread::sleep(Duration::from_millis(300));
        let looks = looks.load(Ordering::Relaxed);
        assert!(looks < 5, "{free} free: {looks} looks at one helper");
        drop(fillers);
        force_end(&stage, &server);
        last_word(&stage, &server).unwrap();
        stage.nobody_is_left();
    }
}
