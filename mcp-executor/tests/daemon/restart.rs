//! A daemon that leaves, is killed, or is started again: what its clients are
//! told, and that manager and pool go on by themselves.

use mcp_lifecycle_core::client::ServerConfig;
use mcp_lifecycle_core::fleet::{Replacement, ServerManager, ServerPool};
use mcp_lifecycle_core::launch::Evidence;

use crate::prelude::*;

const ANYWHERE: &str = "ws://127.0.0.1:0";

/// With records of its own: what other tests leave makes no search incomplete.
async fn daemon_with_records(records: &Path, url: &str) -> Peer {
    let state = format!("MCP_LIFECYCLE_STATE_DIR={}/state", records.display());
    listen("/usr/bin/env", &[&state, DAEMON, "--listen", url]).await
}

fn server(name: &str, launcher: &Arc<dyn ServerLauncher>) -> ServerConfig {
    let spec = ServerSpec::builder(name, echo_server()).cwd("/").build();
    ServerConfig::new(Arc::clone(launcher), spec.unwrap()).termination(without_haste())
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
    let mut peer = daemon(&[]).await;
    let launcher = launcher(ExecutorLauncher::websocket(&peer.url)).await;
    let mark = marker("order");
    // A helper that SIGTERM ends may be reaped by the server: nothing would be left to sweep.
    let script = format!(
        "trap 'echo bye; exit 7' TERM; \
         setsid sh -c 'trap \"\" TERM; echo up; sleep 1000; : {mark}' & \
         while :; do sleep 0.05; done"
    );
    let mut server = launch(&launcher, sh(&script)).await;
    assert_eq!(server.line().await, "up");
    signal(Signal::SIGTERM, peer.child.id().unwrap());
    assert_eq!(server.line().await, "bye");
    assert_eq!(within(peer.child.wait()).await.unwrap().code(), Some(0));
    assert_eq!(alive(&mark), Vec::<String>::new());
    // The daemon has gone, and its word is there.
    let report = server.end(&without_haste()).await.unwrap();
    assert_eq!(
        report.exit,
        mcp_lifecycle_core::launch::ExitStatus::Code(7),
        "{report}"
    );
    assert!(report.gone.swept_count >= 1, "{report}");
}

/// Its program may exit at once.
#[tokio::test]
async fn every_client_has_been_told_when_a_daemon_has_left() {
    let (daemon, url) = serving(Limits::default()).await;
    let mut client = Raw::connect(&url).await;
    within(async {
        while number(&daemon.metrics(), "connections") == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(daemon.shutdown().await, 0);
    assert_eq!(number(&daemon.metrics(), "connections"), 0);
    assert_eq!(client.closed().await, Some(1001));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_skips_the_graces() {
    let mut peer = daemon(&[]).await;
    let launcher = launcher(ExecutorLauncher::websocket(&peer.url)).await;
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
    stubborn.end(&without_haste()).await.unwrap();
}

/// The part of a daemon's greeting that no other one can give.
async fn machine(peer: &Peer) -> Value {
    let extended = json!({"clientName": "raw", "extensions": {"mcpLifecycle": {"version": 1}}});
    let (_client, hello) = Raw::open_with(&peer.url, extended).await;
    hello["extensions"]["mcpLifecycle"]["machine"].clone()
}

/// It does not see what that one has written down.
#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_with_other_records_does_not_answer_for_the_one_before() {
    let (ours, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut url = ANYWHERE.to_owned();
    let mut said = Vec::new();
    for records in [&ours, &other, &ours] {
        let mut peer = daemon_with_records(records.path(), &url).await;
        said.push(machine(&peer).await);
        url = peer.url.clone();
        peer.child.kill().await.unwrap();
    }
    assert!(said[0].is_string() && said[1].is_string(), "{said:?}");
    assert_ne!(said[0], said[1]);
    assert_eq!(said[0], said[2]);
}

/// A manager's servers come back after this happened to their executor.
async fn come_back(end: Signal) {
    let records = tempfile::tempdir().unwrap();
    let mut peer = daemon_with_records(records.path(), ANYWHERE).await;
    let url = peer.url.clone();
    let launcher: Arc<dyn ServerLauncher> =
        Arc::new(launcher(ExecutorLauncher::websocket(&url)).await);
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
    let again = daemon_with_records(records.path(), &url).await;
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
    let mut peer = daemon(&["--lease", "1"]).await;
    let other = daemon(&[]).await;
    let lost = ExecutorLauncher::connect(ExecutorLauncher::websocket(&peer.url))
        .await
        .unwrap();
    let server = launch(&lost, sh("exec cat")).await;
    let manager = ServerManager::new("m");
    let first: Arc<dyn ServerLauncher> = Arc::new(lost);
    manager.refresh([self::server("s", &first)]).await.unwrap();
    signal(Signal::SIGKILL, peer.child.id().unwrap());
    within(peer.child.wait()).await.unwrap();
    // Before the bound there is no proof, and nobody says so.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let policy = at_once();
    server
        .handle
        .terminate(&policy, EndReason::Shutdown)
        .await
        .expect_err("nothing is known yet");

    let second: Arc<dyn ServerLauncher> =
        Arc::new(launcher(ExecutorLauncher::websocket(&other.url)).await);
    let _ = manager.refresh([self::server("s", &second)]).await;
    works(&manager, "s", Duration::from_secs(60)).await;
    let report = server.end(&policy).await.unwrap();
    assert!(
        matches!(&report.gone.evidence[..], [Evidence::Other(_)]),
        "{report}"
    );
    manager.shutdown(Duration::from_secs(20)).await.unwrap();
}

/// Leases a server until its tools can be listed; for a pool that has lost it.
async fn is_leased(pool: &ServerPool, config: &ServerConfig, limit: Duration) {
    let begun = Instant::now();
    loop {
        let tools = match pool.acquire(config).await {
            Ok(lease) => {
                let tools = lease.list_all_tools().await;
                tools.map_err(|error| error.to_string())
            }
            Err(error) => Err(mcp_lifecycle_core::ErrorChain(&error).to_string()),
        };
        match tools {
            Ok(tools) => return assert_eq!(tools.len(), 2),
            Err(error) => assert!(begun.elapsed() < limit, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A pool's servers are had again, leased ones and idle ones, after this happened to
/// their executor, which is then started again at the same place.
async fn are_leased_again(end: Signal) {
    let records = tempfile::tempdir().unwrap();
    let mut peer = daemon_with_records(records.path(), ANYWHERE).await;
    let url = peer.url.clone();
    let launcher: Arc<dyn ServerLauncher> =
        Arc::new(launcher(ExecutorLauncher::websocket(&url)).await);
    let pool = ServerPool::new("p");
    let lease = pool.acquire(&server("leased", &launcher)).await.unwrap();
    assert_eq!(lease.list_all_tools().await.unwrap().len(), 2);
    drop(pool.acquire(&server("idle", &launcher)).await.unwrap());
    signal(end, peer.child.id().unwrap());
    within(peer.child.wait()).await.unwrap();
    let _again = daemon_with_records(records.path(), &url).await;
    // Nothing else has to be done, and long before the lease.
    for name in ["leased", "idle"] {
        is_leased(&pool, &server(name, &launcher), Duration::from_secs(20)).await;
    }
    // This one is of a process that has gone.
    assert!(lease.list_all_tools().await.is_err());
    drop(lease);
    pool.shutdown(Duration::from_secs(20)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_goes_on_after_a_restart_in_order() {
    are_leased_again(Signal::SIGTERM).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_goes_on_after_a_restart_that_was_none() {
    are_leased_again(Signal::SIGKILL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_beside_onto_another_executor_returns_with_the_new_server() {
    let (one, other) = (daemon(&[]).await, daemon(&[]).await);
    let mut launchers: Vec<Arc<dyn ServerLauncher>> = Vec::new();
    for peer in [&one, &other] {
        let launcher = launcher(ExecutorLauncher::websocket(&peer.url)).await;
        launchers.push(Arc::new(launcher));
    }
    let manager = ServerManager::builder("m")
        .replacement(Replacement::Beside)
        .build();
    for round in 0..10 {
        let launcher = &launchers[round % 2];
        manager.refresh([server("s", launcher)]).await.unwrap();
        let peer = manager.server("s").expect("it has taken over");
        assert_eq!(peer.list_all_tools().await.unwrap().len(), 2);
    }
    manager.shutdown(Duration::from_secs(20)).await.unwrap();
}
