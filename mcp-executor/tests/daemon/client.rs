//! Our client with our daemon, the real binary, in both transports.

use mcp_lifecycle_core::terminate::Phase;

use crate::prelude::*;

async fn both<F: AsyncFn(ExecServerConfig)>(test: F) {
    let peer = daemon(&[]).await;
    test(ExecutorLauncher::websocket(&peer.url)).await;
    test(ExecutorLauncher::command(DAEMON, ["--stdio"])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_go_both_ways_and_end_of_file_ends_the_server() {
    both(async |config| {
        let launcher = launcher(config).await;
        let mut server = launch(&launcher, sh("exec cat")).await;
        echo(&mut server, 3_000_000).await;
        // The proof of its end is given time.
        let policy = without_haste().straggler_grace(Duration::from_secs(30));
        let report = server.end(&policy).await.unwrap();
        assert_eq!(report.exit, ExitStatus::Code(0), "{report}");
        assert_eq!(report.gone.swept_count, 0, "{report}");
    })
    .await;
}

/// Not only when its attempts to come back have failed.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_told_at_once_that_the_daemon_leaves() {
    let peer = daemon(&[]).await;
    let launcher = launcher(ExecutorLauncher::websocket(&peer.url)).await;
    let mut server = launch(&launcher, sh("exec cat")).await;
    signal(Signal::SIGTERM, peer.child.id().unwrap());
    let mut rest = Vec::new();
    let read = server.stdout.read_to_end(&mut rest);
    let read = tokio::time::timeout(Duration::from_secs(20), read).await;
    read.expect("told within 20 s").unwrap();
    let report = server.end(&without_haste()).await;
    assert!(report.is_ok(), "the proof came before the good-bye");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ladder_reaches_the_remote_tree() {
    both(async |config| {
        let launcher = launcher(config).await;
        let mark = marker("ladder");
        let script = format!(
            "trap '' TERM; sh -c 'trap \"\" TERM; while :; do sleep 0.1; done; : {mark}' & \
             echo up; while :; do sleep 0.1; done"
        );
        let mut server = launch(&launcher, sh(&script)).await;
        assert_eq!(server.line().await, "up");
        let policy = without_haste()
            .eof_grace(Duration::from_millis(200))
            .term_grace(Duration::from_millis(200));
        let report = server.end(&policy).await.unwrap();
        let phases: Vec<_> = report.phases.iter().map(|record| record.phase).collect();
        assert_eq!(
            phases,
            [Phase::CloseStdin, Phase::RequestEnd, Phase::ForceEnd]
        );
        assert_eq!(report.exit, ExitStatus::Signal(9));
        assert_eq!(alive(&mark), Vec::<String>::new());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_setsid_helper_is_ended_where_the_daemon_says_so() {
    both(async |config| {
        let launcher = launcher(config).await;
        if launcher.semantics().containment.on_terminate < Reach::Tree {
            eprintln!("SKIPPED: {}", launcher.semantics().containment);
            return;
        }
        let mark = marker("setsid");
        let script = format!("setsid sh -c 'echo up; sleep 1000; : {mark}' & exec cat");
        let mut server = launch(&launcher, sh(&script)).await;
        assert_eq!(server.line().await, "up");
        server.end(&without_haste()).await.unwrap();
        assert_eq!(alive(&mark), Vec::<String>::new());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_a_server_kills_it() {
    both(async |config| {
        let launcher = launcher(config).await;
        let mark = marker("drop");
        let mut server = launch(&launcher, sh(&format!("echo up; sleep 1000; : {mark}"))).await;
        assert_eq!(server.line().await, "up");
        drop(server);
        vanished(&mark, Duration::from_secs(5)).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_is_dropped_after_its_leader_has_left_leaves_nothing() {
    both(async |config| {
        let executor = ExecutorLauncher::connect(config).await.unwrap();
        let mark = marker("leader");
        let script = format!("sh -c 'sleep 1000; : {mark}' >&- 2>&- &");
        let spec = sh(&script).build().unwrap();
        let context = LaunchContext::new();
        let started = executor.launch(&spec, &context).await.unwrap();
        let mut started = started.into_parts();
        let mut output = Vec::new();
        within(started.stdout.read_to_end(&mut output))
            .await
            .unwrap();
        // Whatever came of its end is known before a later answer has come.
        let later = sh("true").build().unwrap();
        drop(within(executor.launch(&later, &context)).await.unwrap());
        drop(started);
        vanished(&mark, Duration::from_secs(5)).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_start_leaves_nothing() {
    both(async |config| {
        let executor = ExecutorLauncher::connect(config).await.unwrap();
        let mark = marker("cancel");
        let spec = sh(&format!("sleep 1000; : {mark}")).build().unwrap();
        let context = LaunchContext::new();
        for delay in 0..20 {
            let limit = Duration::from_micros(delay * 150);
            drop(tokio::time::timeout(limit, executor.launch(&spec, &context)).await);
        }
        vanished(&mark, Duration::from_secs(5)).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_launch_that_fails_says_why() {
    both(async |config| {
        let launcher = launcher(config).await;
        let spec = |program: &str| ServerSpec::builder("s", program).cwd("/").build().unwrap();
        let error = launcher
            .launch(&spec("no-such-program-here"), &LaunchContext::new())
            .await
            .unwrap_err();
        assert!(
            matches!(error.kind(), LaunchErrorKind::NotFound { searched, .. } if !searched.is_empty()),
            "{error}"
        );
        let error = launcher.launch(&spec("/etc/hostname"), &LaunchContext::new()).await.unwrap_err();
        assert!(
            matches!(error.kind(), LaunchErrorKind::NotExecutable(_)),
            "{error}"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_takes_its_servers_along() {
    both(async |config| {
        let mark = marker("leave");
        let launcher = launcher(config).await;
        let mut server = launch(&launcher, sh(&format!("echo up; sleep 1000; : {mark}"))).await;
        assert_eq!(server.line().await, "up");
        let Server { handle, .. } = server;
        drop(launcher);
        drop(handle);
        vanished(&mark, Duration::from_secs(3)).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_server_holds_nobody_up_and_is_itself_held_back() {
    let peer = daemon(&[]).await;
    let launcher = launcher(ExecutorLauncher::websocket(&peer.url)).await;
    // Nobody reads this one.
    let stalled = launch(&launcher, sh("exec cat /dev/zero")).await;
    let mut other = launch(&launcher, sh("exec cat")).await;
    for _ in 0..100 {
        other.stdin.write_all(b"ping\n").await.unwrap();
        assert_eq!(other.line().await, "ping");
    }
    let pid = peer.child.id().unwrap();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let rss = status
        .lines()
        .find(|line| line.starts_with("VmRSS"))
        .unwrap();
    let kib: u64 = rss.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(kib < 100 * 1024, "{rss}");
    stalled.end(&without_haste()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_daemon_s_end_in_order_ends_the_servers() {
    let mut peer = daemon(&[]).await;
    let launcher = launcher(ExecutorLauncher::websocket(&peer.url)).await;
    let mark = marker("sigterm");
    let mut server = launch(&launcher, sh(&format!("echo up; sleep 1000; : {mark}"))).await;
    assert_eq!(server.line().await, "up");
    signal(Signal::SIGTERM, peer.child.id().unwrap());
    assert!(within(peer.child.wait()).await.unwrap().success());
    assert_eq!(alive(&mark), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_daemon_s_own_kill_ends_the_servers() {
    let mut peer = daemon(&[]).await;
    let launcher = launcher(ExecutorLauncher::websocket(&peer.url)).await;
    let local = mcp_launcher_local_semantics().await;
    let mark = marker("sigkill");
    let mut server = launch(&launcher, sh(&format!("echo up; sleep 1000; : {mark}"))).await;
    assert_eq!(server.line().await, "up");
    peer.child.kill().await.unwrap();
    if local < Reach::Tree {
        eprintln!("SKIPPED: the local launcher promises {local} for the death of its host");

        return;
    }
    vanished(&mark, Duration::from_secs(5)).await;
}

async fn mcp_launcher_local_semantics() -> Reach {
    mcp_launcher_local::LocalLauncher::new()
        .probe()
        .await
        .on_host_death
}
