//! The first launch of a host: the facts that it finds out, and the processes and threads that it starts.

use std::env;
use std::process::Stdio;
use std::sync::{Arc, mpsc};
use std::thread;

use mcp_launcher_local::{Isolation, LocalLauncher};
use mcp_lifecycle_conformance::census::{Census, assert_same};
use mcp_lifecycle_core::launch::{ErrorChain, LaunchContext, LaunchedServer, ServerLauncher};
use nix::libc;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::geteuid;

use crate::gate::ask_about;
use crate::stage::{self, LIMIT, Stage, perform, plays};

const FREE: &str = "MCP_TEST_FREE";

#[test]
fn a_thread_that_was_refused_is_started_by_the_next_launch() {
    perform("first_launch::few_threads");
}

#[test]
#[ignore = "a role"]
fn few_threads() {
    // The limit binds ordinary users only: as root there is nothing to see.
    if !plays() || geteuid().is_root() {
        return;
    }
    for isolation in ["group", "guardian"] {
        for free in 0..6 {
            let mut host = stage::role("first_launch::cold_host");
            host.env(FREE, format!("{free} {isolation}"));
            let output = host.stdin(Stdio::null()).output().unwrap();
            assert!(output.status.success(), "{free}, {isolation}: {output:?}");
        }
    }
}

/// A host that may have so many processes and threads more for its first launch.
#[test]
#[ignore = "a role"]
fn cold_host() {
    if !plays() {
        return;
    }
    let free = env::var(FREE).unwrap();
    let (free, isolation) = free.split_once(' ').unwrap();
    let mut stage = Stage::new();
    stage.launcher = Arc::new(
        LocalLauncher::builder()
            .isolation(match isolation {
                "group" => Isolation::ProcessGroup,
                _ => Isolation::Guardian,
            })
            .build(),
    );
    // A thread that launches is there already.
    stage
        .wait("a thread", stage.runtime.spawn_blocking(|| ()))
        .unwrap();
    let spec = stage.spec(&["plain"]);
    let (soft, hard) = getrlimit(Resource::RLIMIT_NPROC).unwrap();
    let limit = |soft| setrlimit(Resource::RLIMIT_NPROC, soft, hard).unwrap();
    let used = (0..).find(|used| {
        limit(used + 1);
        thread::Builder::new()
            .spawn(|| ())
            .map(|thread| thread.join().unwrap())
            .is_ok()
    });
    limit(used.unwrap() + free.parse::<u64>().unwrap());
    let first = stage.wait(
        "the launch",
        stage.launcher.launch(&spec, &LaunchContext::new()),
    );
    limit(soft);
    println!("{isolation} with {free}: {:?}", first.as_ref().map(|_| ()));
    match first {
        Ok(server) => end(&stage, server),
        Err(error) => {
            let text = ErrorChain(&error).to_string();
            assert!(text.contains("RLIMIT_NPROC"), "{text}");
        }
    }
    // What was missing for a moment is not missing for ever, and has left nothing.
    end(&stage, stage.launch(&["plain"]));
    stage.nobody_is_left();
    let children = Census::take().child_count();
    assert_eq!(children, 0, "not reaped");
}

fn end(stage: &Stage, server: LaunchedServer) {
    let terminator = Arc::clone(server.terminator());
    drop(server);
    stage.wait("the proof", terminator.gone()).unwrap();
}

#[test]
fn what_a_launcher_can_do_is_told_while_it_is_being_found_out() {
    perform("first_launch::told_meanwhile");
}

#[test]
#[ignore = "a role"]
fn told_meanwhile() {
    if !plays() {
        return;
    }
    let launcher = LocalLauncher::new();
    let told = |launcher: &LocalLauncher| launcher.semantics().containment.mechanism;
    let before = Census::take();
    let unknown = told(&launcher);
    assert!(unknown.contains("not known"), "{unknown}");
    assert_same(&before, &Census::take());
    // The first program that is executed to find out does not begin before it is let.
    let (begins, begun) = mpsc::channel();
    let (go_on, wait) = mpsc::channel::<()>();
    let finding = thread::spawn(move || {
        ask_about(
            &[libc::SYS_execve, libc::SYS_execveat],
            move |listener, call| {
                let _ = begins.send(());
                let _ = wait.recv_timeout(LIMIT);
                listener.answer(call, None);
            },
        );
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(LocalLauncher::new().probe())
    });
    begun.recv_timeout(LIMIT).unwrap();
    let (answers, answered) = mpsc::channel();
    let asking = thread::spawn(move || answers.send(told(&launcher)).unwrap());
    let meanwhile = answered.recv_timeout(LIMIT);
    assert_eq!(meanwhile.as_ref(), Ok(&unknown), "it waits");
    drop(go_on);
    asking.join().unwrap();
    let found = finding.join().unwrap();
    assert!(found.mechanism.contains("guardian"), "{found:?}");
    assert_eq!(told(&LocalLauncher::new()), found.mechanism);
}
