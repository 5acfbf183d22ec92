//! A host that forks and executes nothing.

use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_core::launch::{ErrorChain, LaunchContext, ServerLauncher};
use nix::libc;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};

use crate::stage::{LIMIT, Stage, perform, plays};

#[test]
fn a_fork_of_a_host_launches_nothing_and_ends_nothing() {
    perform("forked::copy");
}

#[test]
#[ignore = "a role"]
fn copy() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    let server = stage.launch(&["ignore-eof-term"]);
    let group = LocalLauncher::builder()
        .isolation(mcp_launcher_local::Isolation::ProcessGroup)
        .build();
    let spec = stage.spec(&["ignore-eof-term"]);
    let grouped = stage
        .wait("the launch", group.launch(&spec, &LaunchContext::new()))
        .unwrap();
    stage.wait_for("server");
    stage.wait_for("server");
    // SAFETY: the copy uses nothing that another thread may have locked but the
    // allocator, which the C library sees to, and ends without running exits.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            let code = copied(&stage, vec![server, grouped]);
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(code) }
        }
        ForkResult::Parent { child } => {
            let before = watching();
            let ended = waitpid(child, None).unwrap();
            assert!(matches!(ended, WaitStatus::Exited(_, 0)), "{ended:?}");
            let spent = watching() - before;
            assert!(spent < 50_000_000, "the watcher was busy for {spent} ns");
        }
    }
    let alive = stage
        .alive
        .block_on(stage.alive.alive_at_this_moment(LIMIT));
    assert_eq!(alive.unwrap().len(), 2, "the copy has ended nobody");
    // And this process is as good as ever.
    let terminators = [&server, &grouped].map(|server| server.terminator().clone());
    drop((server, grouped));
    for terminator in terminators {
        stage.wait("the proof", terminator.gone()).unwrap();
    }
    stage.nobody_is_left();
}

/// In the copy: what is wrong, as an exit code.
fn copied(stage: &Stage, servers: Vec<mcp_lifecycle_core::launch::LaunchedServer>) -> i32 {
    drop(servers);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let Ok(runtime) = runtime else { return 2 };
    let launched = runtime
        .block_on(LocalLauncher::new().launch(&stage.spec(&["plain"]), &LaunchContext::new()));
    let Err(error) = launched else { return 3 };
    let text = ErrorChain(&error).to_string();
    let reaped = runtime.block_on(LocalLauncher::new().reap_orphans());
    let Err(refused) = reaped else { return 5 };
    let refused = ErrorChain(&refused).to_string();
    // Long enough for a watcher that spins to be seen.
    std::thread::sleep(std::time::Duration::from_millis(300));
    let says_so = |text: &String| text.contains("is a fork of process");
    i32::from(![text, refused].iter().all(says_so)) * 4
}

/// How long the launcher's thread has run, in nanoseconds.
fn watching() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let watcher = tasks.map(|task| task.path()).find(|task| {
        let name = std::fs::read_to_string(task.join("comm"));
        name.is_ok_and(|name| name.starts_with("mcp-lifecycle"))
    });
    let spent = std::fs::read_to_string(watcher.unwrap().join("schedstat")).unwrap();
    spent.split(' ').next().unwrap().parse().unwrap()
}
