//! A daemon that leaves, is killed, or is started again: what its clients are
//! told, and that manager and pool go on by themselves.

mod support;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_launcher_executor::{ExecServer, ExecServerConfig, ExecutorLauncher};
use mcp_lifecycle_core::client::ServerConfig;
use mcp_lifecycle_core::fleet::ServerManager;
use mcp_lifecycle_core::launch::{Evidence, ServerLauncher, ServerSpec};
use mcp_lifecycle_core::terminate::{EndReason, TerminationPolicy};
use nix::sys::signal::Signal;
use support::{Peer, alive, launch, launcher, listen, marker, sh, signal, within};

const DAEMON: &str = env!("CARGO_BIN_EXE_mcp-executor");
const ANYWHERE: &str = "ws://127.0.0.1:0";

async fn daemon(url: &str, lease: &str) -> Peer {
    listen(DAEMON, &["--listen", url, "--lease", lease]).await
}

/// The lean MCP server, which cargo puts beside the daemon.
fn server(name: &str, launcher: &Arc<dyn ServerLauncher>) -> ServerConfig {
    let echo = PathBuf::from(DAEMON).with_file_name("mcp-echo");
    assert!(
        echo.is_file(),
        "{} is missing: run `cargo build -p mcp-lifecycle-conformance` first",
        echo.display()
    );
    let spec = ServerSpec::builder(name, echo).cwd("/").build().unwrap();
    ServerConfig::new(Arc::clone(launcher), spec)
}

async fn works(manager: &ServerManager, name: &str, limit: Duration) {
    let begun = Instant::now();
    loop {
        let peer = manager.ready(name, limit).await.unwrap();
        // One that is ready may be the old one, whose loss is being noticed.
        match peer.list_all_tools().await {
            Ok(tools) => return assert_eq!(tools.len(), 2),
            Err(error) => assert!(begun.elapsed() < limit, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_leaves_in_order_gives_every_exit_and_proof_before_it_says_so() {
    let mut peer = daemon(ANYWHERE, "30").await;
    let launcher = launcher(ExecServerConfig::websocket(&peer.url)).await;
    let mark = marker("order");
    let script = format!(
        "setsid sh -c 'sleep 1000; : {mark}' & trap 'echo bye; exit 7' TERM; \
         echo up; while :; do sleep 0.05; done"
    );
    let mut server = launch(&launcher, sh(&script)).await;
    assert_eq!(server.line().await, "up");
    signal(Signal::SIGTERM, peer.child.id().unwrap());
    assert_eq!(server.line().await, "bye");
    assert_eq!(within(peer.child.wait()).await.unwrap().code(), Some(0));
    assert_eq!(alive(&mark), Vec::<String>::new());
    // The daemon has gone, and its word is there.
    let report = server.end(&TerminationPolicy::default()).await.unwrap();
    assert_eq!(
        report.exit,
        mcp_lifecycle_core::launch::ExitStatus::Code(7),
        "{report}"
    );
    assert!(report.gone.swept_count >= 1, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_skips_the_graces() {
    let mut peer = daemon(ANYWHERE, "30").await;
    let launcher = launcher(ExecServerConfig::websocket(&peer.url)).await;
    let mut stubborn = launch(
        &launcher,
        sh("trap '' TERM; echo up; while :; do sleep 1; done"),
    )
    .await;
    assert_eq!(stubborn.line().await, "up");
    let pid = peer.child.id().unwrap();
    signal(Signal::SIGTERM, pid);
    signal(Signal::SIGINT, pid);
    assert_eq!(within(peer.child.wait()).await.unwrap().code(), Some(0));
    stubborn.end(&TerminationPolicy::default()).await.unwrap();
}

/// A manager's servers come back after this happened to their executor.
async fn come_back(end: Signal) {
    let mut peer = daemon(ANYWHERE, "30").await;
    let url = peer.url.clone();
    let launcher: Arc<dyn ServerLauncher> =
        Arc::new(launcher(ExecServerConfig::websocket(&url)).await);
    let manager = ServerManager::new("m");
    let names = ["a", "b", "c"];
    manager
        .refresh(names.map(|name| server(name, &launcher)))
        .await
        .unwrap();
    for name in names {
        works(&manager, name, Duration::from_secs(10)).await;
    }
    signal(end, peer.child.id().unwrap());
    within(peer.child.wait()).await.unwrap();
    let again = daemon(&url, "30").await;
    let begun = Instant::now();
    for name in names {
        works(&manager, name, Duration::from_secs(30)).await;
    }
    // Long before the lease: the daemon on the same machine tells.
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
    manager.shutdown(Duration::from_secs(20)).await.unwrap();
    drop(again);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manager_goes_on_after_a_restart_in_order() {
    come_back(Signal::SIGTERM).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manager_goes_on_after_a_restart_that_was_none() {
    come_back(Signal::SIGKILL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_never_comes_back_keeps_nothing_closed_beyond_the_lease() {
    let mut peer = daemon(ANYWHERE, "1").await;
    let other = daemon(ANYWHERE, "30").await;
    let lost = ExecServer::connect(ExecServerConfig::websocket(&peer.url))
        .await
        .unwrap();
    let lost = ExecutorLauncher::new(lost);
    let server = launch(&lost, sh("exec cat")).await;
    let manager = ServerManager::new("m");
    let first: Arc<dyn ServerLauncher> = Arc::new(lost);
    manager.refresh([self::server("s", &first)]).await.unwrap();
    signal(Signal::SIGKILL, peer.child.id().unwrap());
    within(peer.child.wait()).await.unwrap();
    // Before the bound there is no proof, and nobody says so.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let policy = TerminationPolicy::immediate();
    server
        .handle
        .terminate(&policy, EndReason::Shutdown)
        .await
        .expect_err("nothing is known yet");

    let second: Arc<dyn ServerLauncher> =
        Arc::new(launcher(ExecServerConfig::websocket(&other.url)).await);
    let _ = manager.refresh([self::server("s", &second)]).await;
    works(&manager, "s", Duration::from_secs(60)).await;
    let report = server.end(&policy).await.unwrap();
    assert!(
        matches!(&report.gone.evidence[..], [Evidence::Other(_)]),
        "{report}"
    );
    manager.shutdown(Duration::from_secs(20)).await.unwrap();
}
