//! Our client with the real `codex exec-server`, in both transports.
//!
//! `MCP_TEST_CODEX` names the codex binary; `tests/run codex` sets it.

#[path = "support/frames.rs"]
mod frames;
#[path = "support/lag.rs"]
mod lag;
#[path = "support/proxy.rs"]
#[expect(dead_code, reason = "the other suites count its connections")]
mod proxy;
mod support;

use std::time::Duration;

use frames::Frames;
use mcp_launcher_executor::{ExecServerConfig, ExecutorLauncher};
use mcp_lifecycle_core::launch::{
    ExitStatus, LaunchContext, LaunchErrorKind, Reach, ServerLauncher,
};
use mcp_lifecycle_core::terminate::Phase;
use proxy::{Mood, Proxy, echo_through, echo_under};
use support::{
    Peer, alive, at_once, codex, echo, launch, launcher, listen, marker, sh, vanished,
    without_haste,
};
use tokio::io::AsyncWriteExt;

/// Runs `test` over WebSocket and over the command's standard streams.
async fn both<F: AsyncFn(ExecServerConfig)>(test: F) {
    let peer = websocket().await;
    test(ExecutorLauncher::websocket(&peer.url)).await;
    let args = ["exec-server", "--listen", "stdio"];
    test(ExecutorLauncher::command(codex(), args)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_go_both_ways_in_order_and_once() {
    both(async |config| {
        let launcher = launcher(config).await;
        let mut server = launch(&launcher, sh("exec cat")).await;
        echo(&mut server, 3_000_000).await;
        let report = server.end(&without_haste()).await.unwrap();
        assert_eq!(report.exit, ExitStatus::Signal(15));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_polite_server_gets_its_grace_and_a_setsid_helper_is_swept() {
    both(async |config| {
        let launcher = launcher(config).await;
        assert_eq!(launcher.semantics().containment.on_terminate, Reach::Marked);
        assert_eq!(
            launcher.semantics().containment.on_host_death,
            Reach::Marked
        );
        let mark = marker("tree");
        // The helper says when it is deaf.
        let script = format!(
            "trap 'echo bye; exit 7' TERM; \
             setsid sh -c 'trap \"\" TERM; echo up; while :; do sleep 1; done' {mark} & \
             while :; do sleep 0.1; done; : {mark}"
        );
        let mut server = launch(&launcher, sh(&script)).await;
        assert_eq!(server.line().await, "up");
        let policy = without_haste().term_grace(Duration::from_secs(3));
        let report = server.end(&policy).await.unwrap();
        assert_eq!(server.line().await, "bye", "{report}");
        assert_eq!(report.exit, ExitStatus::Code(7), "{report}");
        let phases: Vec<_> = report.phases.iter().map(|record| record.phase).collect();
        assert_eq!(phases, [Phase::RequestEnd, Phase::ForceEnd]);
        assert!(report.gone.swept_count >= 1, "{report}");
        assert!(report.to_string().contains("helper script"), "{report}");
        assert_eq!(alive(&mark), Vec::<String>::new());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_server_is_killed_with_its_tree() {
    both(async |config| {
        let launcher = launcher(config).await;
        let mark = marker("drop");
        let script = format!("setsid sleep 1000 {mark} & setsid sh -c 'sleep 1000; : {mark}' & echo up; exec sh -c 'sleep 1000; : {mark}'");
        let script = script.replace(&format!("sleep 1000 {mark}"), &format!("sh -c 'sleep 999; : {mark}'"));
        let mut server = launch(&launcher, sh(&script)).await;
        assert_eq!(server.line().await, "up");
        drop(server);
        vanished(&mark, Duration::from_secs(10)).await;
    })
    .await;
}

/// The watcher of the session must not take the end of the launcher for its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_outlives_the_launcher_it_came_from() {
    both(async |config| {
        let launcher = launcher(config).await;
        let mut server = launch(&launcher, sh("exec cat")).await;
        drop(launcher);
        for _ in 0..20 {
            server.stdin.write_all(b"still here\n").await.unwrap();
            assert_eq!(server.line().await, "still here");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let report = server.end(&without_haste()).await.unwrap();
        assert_eq!(report.exit, ExitStatus::Signal(15), "{report}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_program_is_an_error_of_the_launch() {
    both(async |config| {
        let launcher = launcher(config).await;
        let spec = mcp_lifecycle_core::launch::ServerSpec::builder("s", "/no/such/program").build();
        let error = launcher
            .launch(&spec.unwrap(), &LaunchContext::new())
            .await
            .unwrap_err();
        assert!(
            matches!(error.kind(), LaunchErrorKind::Backend { .. }),
            "{error}"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_session_s_end_sweeps_what_the_peer_leaves_behind() {
    let mut peer = websocket().await;
    let launcher = launcher(ExecutorLauncher::websocket(&peer.url)).await;
    let mark = marker("orphan");
    let script = format!("setsid sh -c 'echo up; sleep 1000; : {mark}' & wait");
    let mut server = launch(&launcher, sh(&script)).await;
    assert_eq!(server.line().await, "up");
    // The executor itself is killed: only the watcher is left to act.
    peer.child.kill().await.unwrap();
    vanished(&mark, Duration::from_secs(10)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_read_does_not_wedge_the_others_end() {
    let peer = websocket().await;
    let mut config = ExecutorLauncher::websocket(&peer.url);
    config.call_timeout = Duration::from_secs(2);
    let launcher = launcher(config).await;
    let mut stuck = launch(&launcher, sh("exec sleep 1000")).await;
    let mut other = launch(&launcher, sh("exec cat")).await;
    let chunk = vec![b'x'; 64 * 1024];
    let flood = async { while stuck.stdin.write_all(&chunk).await.is_ok() {} };
    // The peer stops answering altogether; a fresh link gets past it.
    let _ = tokio::time::timeout(Duration::from_secs(6), flood).await;
    other.stdin.write_all(b"still here\n").await.unwrap();
    assert_eq!(other.line().await, "still here");
    other.end(&at_once()).await.unwrap();
    stuck.end(&at_once()).await.unwrap();
}

async fn websocket() -> Peer {
    listen(&codex(), &["exec-server", "--listen", "ws://127.0.0.1:0"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_cut_loses_and_repeats_nothing() {
    echo_under(&websocket().await, 3_000_000, async |proxy: &Proxy| {
        tokio::time::sleep(Duration::from_millis(30)).await;
        proxy.set(Mood::Cut);
        tokio::time::sleep(Duration::from_millis(20)).await;
        proxy.set(Mood::Fair);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_arrive_late_or_one_at_a_time_arrive() {
    let peer = websocket().await;
    let late = Mood::Late(Duration::from_millis(20));
    for (size, mood) in [(200_000, late), (30_000, Mood::Crumbs)] {
        echo_under(&peer, size, async |proxy: &Proxy| proxy.set(mood)).await;
    }
}

/// We notice it first; codex takes nobody back before it has noticed as well.
#[tokio::test(flavor = "multi_thread")]
async fn a_half_open_connection_is_replaced_when_both_ends_have_noticed() {
    echo_under(&websocket().await, 10_000_000, async |proxy: &Proxy| {
        tokio::time::sleep(Duration::from_millis(50)).await;
        proxy.set(Mood::Mute);
        tokio::time::sleep(Duration::from_secs(4)).await;
        proxy.set(Mood::Cut);
        tokio::time::sleep(Duration::from_millis(50)).await;
        proxy.set(Mood::Fair);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_out_of_order_twice_and_over_many_connections_lose_and_repeat_nothing() {
    let peer = websocket().await;
    let proxy = Frames::shuffled(&peer.url).await;
    echo_through(&proxy.url, 1_000_000, async {}).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_falls_behind_gets_every_byte_all_the_same() {
    let peer = websocket().await;
    lag::a_reader_that_falls_behind_gets_every_byte(&peer.url).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn output_that_the_peer_has_dropped_is_an_error_and_no_gap() {
    let peer = websocket().await;
    lag::output_that_the_peer_has_dropped_is_an_error(&peer.url).await;
}
