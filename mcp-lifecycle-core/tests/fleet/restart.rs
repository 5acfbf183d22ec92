//! Servers that fail, and fail again.

use mcp_lifecycle_core::fleet::{
    AcquireErrorKind, FleetOptions, RestartPolicy, ServerManager, ServerPool, ServerState,
};

use crate::fake::{Fake, seconds};
use crate::log::Log;

#[tokio::test(start_paused = true)]
async fn a_server_that_shakes_hands_and_dies_uses_its_budget_and_no_more() {
    let fake = Fake::new();
    let log = Log::default();
    let manager = ServerManager::builder("m").observer(log.observer()).build();
    manager
        .refresh([fake.config("s", &["--die", "5"])])
        .await
        .unwrap();
    tokio::time::sleep(seconds(7 * 60)).await;
    assert_eq!(fake.starts(), 6, "the first, and five restarts");
    let record = &manager.list()[0];
    assert_eq!((record.state, record.failures), (ServerState::Exhausted, 6));
    assert!(record.next_attempt.is_some() && record.last_error.is_some());
    assert!(manager.retry("s"));
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert_eq!(fake.starts(), 7, "by hand");
    manager.shutdown(seconds(5)).await.unwrap();
    log.assert_balanced();
}

#[tokio::test(start_paused = true)]
async fn nothing_restarts_during_or_after_a_shutdown() {
    let fake = Fake::new();
    let manager = ServerManager::new("m");
    let servers = [
        fake.config("dies", &["--die", "5"]),
        fake.config("stubborn", &["--stubborn"]),
    ];
    manager.refresh(servers).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    let before = fake.starts();
    manager.shutdown(seconds(10)).await.unwrap();
    tokio::time::sleep(seconds(600)).await;
    assert_eq!(fake.starts(), before);
}

#[tokio::test(start_paused = true)]
async fn a_sustained_uptime_renews_the_budget() {
    let fake = Fake::new();
    let manager = ServerManager::new("m");
    let policy = RestartPolicy::new()
        .max_restarts(1)
        .sustained_uptime(seconds(60));
    manager
        .refresh([fake
            .config("s", &["--die", "70000"])
            .in_fleet(FleetOptions::new().restart(policy))])
        .await
        .unwrap();
    tokio::time::sleep(seconds(600)).await;
    assert!(fake.starts() >= 8, "{}", fake.starts());
    assert_eq!(manager.list()[0].failures, 1);
    manager.shutdown(seconds(5)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_pool_starts_a_broken_server_only_for_somebody_and_within_its_budget() {
    let fake = Fake::new();
    let pool = ServerPool::new("p");
    let server = fake.config("s", &["--fail"]);
    for _ in 0..100 {
        let error = pool.acquire(&server).await.unwrap_err();
        drop(error);
    }
    assert_eq!(fake.starts(), 6);
    let error = pool.acquire(&server).await.unwrap_err();
    assert!(
        matches!(error.kind(), AcquireErrorKind::Exhausted { .. }),
        "{error}"
    );
    assert!(error.to_string().contains("PATH"), "{error}");
    tokio::time::sleep(seconds(3600)).await;
    assert!(pool.list().is_empty(), "forgotten");
    assert_eq!(fake.starts(), 6, "nobody wanted it");
}
