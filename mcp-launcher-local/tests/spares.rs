//! Which guardian a server gets from a launcher that keeps one ready.

#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_core::launch::{LaunchContext, ServerLauncher, ServerSpec};
use nix::sys::prctl::set_timerslack;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::AsyncReadExt;

const DEADLINE: Duration = Duration::from_secs(60);

/// The pid of a new server's guardian, as the server sees it; the server has ended.
async fn guardian_of(launcher: &LocalLauncher) -> u32 {
    let spec = ServerSpec::builder("parent", "/bin/sh")
        .args(["-c", "echo $PPID; cat"])
        .build()
        .unwrap();
    let launched = launcher.launch(&spec, &LaunchContext::new()).await.unwrap();
    let parts = launched.into_parts();
    let mut stdout = parts.stdout;
    let mut said = Vec::new();
    while !said.ends_with(b"\n") {
        let mut byte = [0];
        let read = tokio::time::timeout(DEADLINE, stdout.read_exact(&mut byte));
        read.await.expect("a line").unwrap();
        said.push(byte[0]);
    }
    drop((parts.stdin, stdout));
    tokio::time::timeout(DEADLINE, parts.terminator.gone())
        .await
        .expect("an end")
        .unwrap();
    String::from_utf8(said).unwrap().trim().parse().unwrap()
}

/// The same, launched by a thread whose timers are not as others'.
fn guardian_of_another_thread(launcher: &LocalLauncher) -> u32 {
    let launcher = launcher.clone();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .on_thread_start(|| set_timerslack(123_456).unwrap())
            .build()
            .unwrap();
        runtime.block_on(guardian_of(&launcher))
    });
    thread.join().unwrap()
}

#[track_caller]
fn until(what: &str, happens: impl Fn() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !happens() {
        assert!(Instant::now() < end, "{what}: it does not happen");
        std::thread::yield_now();
    }
}

/// The children of this process, which are guardians.
fn guardians() -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    for task in fs::read_dir("/proc/self/task").unwrap() {
        let children = fs::read_to_string(task.unwrap().path().join("children"));
        let children = children.unwrap_or_default();
        found.extend(
            children
                .split_whitespace()
                .map(|pid| pid.parse::<u32>().unwrap()),
        );
    }
    found
}

/// One test: the children of a process are those of all its tests.
#[tokio::test]
async fn a_launch_takes_the_spare_if_it_is_as_good_as_a_new_one() {
    let launcher = LocalLauncher::new().spare_guardians(1);
    assert_eq!(launcher.warm_up().await, 1);
    let spare = guardians();
    assert_eq!(spare.len(), 1);
    // Twice: the next one is made after the first was taken.
    assert_eq!(guardian_of(&launcher).await, *spare.first().unwrap());
    assert_eq!(launcher.warm_up().await, 1);
    let spare = guardians();
    assert_eq!(spare.len(), 1);
    assert_eq!(guardian_of(&launcher).await, *spare.first().unwrap());

    // A spare has the limits of its time.
    assert_eq!(launcher.warm_up().await, 1);
    let stale = *guardians().first().unwrap();
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, soft - 1, hard).unwrap();
    assert_ne!(guardian_of(&launcher).await, stale);
    assert_eq!(launcher.warm_up().await, 1);
    let fresh = guardians();
    assert_eq!(
        guardian_of(&launcher).await,
        *fresh.iter().find(|&&pid| pid != stale).unwrap()
    );

    until("the stale one is given up, and reaped", || {
        !guardians().contains(&stale)
    });

    // One that somebody has stopped starts nothing, and ends all the same.
    assert_eq!(launcher.warm_up().await, 1);
    let stopped = *guardians().first().unwrap();
    let pid = Pid::from_raw(i32::try_from(stopped).unwrap());
    kill(pid, Signal::SIGSTOP).unwrap();
    until("it stops", || {
        fs::read_to_string(format!("/proc/{stopped}/stat"))
            .unwrap()
            .contains(") T ")
    });
    assert_ne!(guardian_of(&launcher).await, stopped);
    until("the stopped one is given up, and reaped", || {
        !guardians().contains(&stopped)
    });

    // All that there are, for what nobody can compare.
    assert_eq!(launcher.warm_up().await, 1);
    let confined = guardians();
    launcher.give_up_spares();
    until("they are given up", || guardians().is_disjoint(&confined));
    assert!(!confined.contains(&guardian_of(&launcher).await));

    // A thread with attributes of its own: after two launches, none is made for it.
    assert_eq!(launcher.warm_up().await, 1);
    for _ in 0..2 {
        until("there is one", || guardians().len() == 1);
        let before = guardians();
        assert!(!before.contains(&guardian_of_another_thread(&launcher)));
    }
    until("there are none", || guardians().is_empty());
    guardian_of_another_thread(&launcher);
    std::thread::sleep(Duration::from_millis(50));
    assert!(guardians().is_empty(), "no more are made");
    // Until a launch comes that they would have fitted.
    guardian_of(&launcher).await;
    until("there is one again", || guardians().len() == 1);

    // None where none was asked for.
    let plain = LocalLauncher::new();
    assert_eq!(plain.warm_up().await, 0);
    assert!(!guardians().contains(&guardian_of(&plain).await));
}
