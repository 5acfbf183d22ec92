//! Each way in which the host's side ends, with each shape of a server.

use std::time::Duration;

use nix::sys::signal::Signal;

use super::host::{Host, code, is_held, signal, state, verb};
use super::{SHAPES, Shape, Stranger, nothing_is_left, start};
use crate::support::{LIMIT, Rig, eventually, pause};

/// What becomes of every shape.
async fn each(test: &str, end: impl AsyncFn(&mut Host, &Rig)) {
    let Some(rig) = Rig::new(test) else {
        return;
    };
    let stranger = Stranger::start(&rig);
    for shape in SHAPES {
        println!("{test}: {shape:?}");
        let mut host = start(&rig, &[], &shape.server(&rig)).await;
        assert!(!host.companions().is_empty(), "it has a companion");
        end(&mut host, &rig).await;
        nothing_is_left(&rig, &host).await;
    }
    stranger.assert_runs();
}

/// The shim ends, and its end is the proof.
async fn is_proven_by_the_shim(host: &mut Host, rig: &Rig) {
    host.ended().await;
    assert_eq!(rig.started(), Vec::<String>::new(), "nothing is left");
}

#[tokio::test]
async fn the_end_of_input_is_proven_by_the_shim() {
    each("contained-eof", async |host, rig| {
        host.close();
        is_proven_by_the_shim(host, rig).await;
    })
    .await;
}

#[tokio::test]
async fn a_shim_that_is_asked_to_end_is_there_until_the_proof() {
    each("contained-term", async |host, rig| {
        signal(host.shim, Signal::SIGTERM);
        is_proven_by_the_shim(host, rig).await;
    })
    .await;
}

#[tokio::test]
async fn a_killed_shim_leaves_no_container() {
    each("contained-shim", async |host, _| {
        signal(host.shim, Signal::SIGKILL);
        assert_eq!(code(host.ended().await), 137);
    })
    .await;
}

#[tokio::test]
async fn a_killed_host_leaves_no_container() {
    each("contained-host", async |host, _| {
        signal(host.pid(), Signal::SIGKILL);
        host.ended().await;
    })
    .await;
}

#[tokio::test]
async fn claude_codes_ladder_leaves_no_container() {
    each("contained-claude", async |host, _| {
        signal(host.shim, Signal::SIGINT);
        pause(Duration::from_millis(100)).await;
        signal(host.shim, Signal::SIGTERM);
        pause(Duration::from_millis(400)).await;
        // It may have ended by now.
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(host.shim), Signal::SIGKILL);
        host.ended().await;
    })
    .await;
}

#[tokio::test]
async fn host_shim_and_guardian_that_are_killed_together_leave_no_container() {
    each("contained-all", async |host, _| {
        let guardian = host.guardian();
        for pid in [host.pid(), host.shim, guardian] {
            signal(pid, Signal::SIGKILL);
        }
        host.ended().await;
    })
    .await;
}

#[tokio::test]
async fn a_killed_docker_program_leaves_no_container() {
    let Some(rig) = Rig::new("contained-cli") else {
        return;
    };
    for shape in [Shape::Direct, Shape::Kept, Shape::Shell, Shape::Npx] {
        println!("{shape:?}");
        let mut host = start(&rig, &[], &shape.server(&rig)).await;
        let own = host.processes().into_iter();
        for docker in own.filter(|it| it.name == "docker") {
            signal(docker.pid, Signal::SIGKILL);
        }
        let ended = code(host.ended().await);
        assert_eq!(
            rig.started(),
            Vec::<String>::new(),
            "the shim has ended: nothing is left"
        );
        assert_eq!(
            ended == 137,
            matches!(shape, Shape::Direct | Shape::Kept),
            "{ended}"
        );
        nothing_is_left(&rig, &host).await;
    }
}

/// Kills everything there is of it at once, and leaves the container to be found.
async fn kill_all(rig: &Rig, host: &mut Host) {
    eventually("a companion has its last will", || {
        host.companions().len() > 1
    })
    .await;
    let guardian = host.guardian();
    let mut all = host.companions();
    all.extend([host.pid(), host.shim, guardian]);
    // Held first: a companion replaces a last will that has died, which acts when its
    // companion has, and so does a guardian when its shim has.
    for &pid in &all {
        signal(pid, Signal::SIGSTOP);
    }
    eventually("everybody is held", || all.iter().all(|&pid| is_held(pid))).await;
    for &pid in &all {
        signal(pid, Signal::SIGKILL);
    }
    host.ended().await;
    // A last will takes a second.
    pause(Duration::from_millis(1500)).await;
    assert_eq!(rig.started().len(), 1, "there is nobody to remove it");
}

#[tokio::test]
async fn what_everybody_was_killed_around_is_found_by_reap() {
    let Some(rig) = Rig::new("contained-reap") else {
        return;
    };
    let stranger = Stranger::start(&rig);
    for shape in [Shape::Direct, Shape::Detached] {
        let mut host = start(&rig, &[], &shape.server(&rig)).await;
        let id = rig.started().remove(0);
        let before = verb(&rig, &["reap"]);
        assert!(before.status.success(), "{before:?}");
        assert_eq!(rig.started().len(), 1, "its host lives");
        kill_all(&rig, &mut host).await;
        let dry = verb(&rig, &["reap", "--dry-run"]);
        let said = String::from_utf8_lossy(&dry.stdout);
        assert!(
            said.contains(&id) && said.contains("1 container "),
            "{said}"
        );
        let doctor = verb(&rig, &["doctor"]);
        let said = String::from_utf8_lossy(&doctor.stdout);
        assert!(said.contains(&id), "{said}");
        assert_eq!(rig.started().len(), 1, "nobody was asked to end it");
        let reaped = verb(&rig, &["reap"]);
        let said = String::from_utf8_lossy(&reaped.stdout);
        assert!(reaped.status.success() && said.contains(&id), "{said}");
        assert_eq!(rig.started(), Vec::<String>::new(), "{said}");
        nothing_is_left(&rig, &host).await;
    }
    stranger.assert_runs();
}

#[tokio::test]
async fn what_everybody_was_killed_around_is_found_by_the_next_companion() {
    let Some(rig) = Rig::new("contained-next") else {
        return;
    };
    let mut dead = start(&rig, &[], &Shape::Direct.server(&rig)).await;
    let old = rig.started();
    kill_all(&rig, &mut dead).await;
    let mut next = Host::start(&rig, &["--grace", "300ms"], &Shape::Direct.server(&rig)).await;
    rig.alive.accept("server", LIMIT).await.unwrap();
    eventually("the old one is gone", || {
        let now = rig.started();
        now.len() == 1 && now != old
    })
    .await;
    next.close();
    next.ended().await;
    nothing_is_left(&rig, &next).await;
    let ledgers = state(&rig).join("docker");
    let left = std::fs::read_dir(ledgers).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["domain"], "no ledger, and no socket");
}
