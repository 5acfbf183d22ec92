//! The preparation of a launcher does not use up the start-up deadline.

use std::sync::{Arc, Mutex};

use mcp_lifecycle_core::client::{ServerEvent, StartErrorKind, StartPhase};
use mcp_lifecycle_core::fleet::{ServerManager, ServerPool};

use crate::fake::{Fake, seconds};

#[tokio::test(start_paused = true)]
async fn a_slow_fetch_does_not_use_up_the_start_up_deadline_of_a_manager() {
    let fake = Fake::new();
    let config = fake.config("s", &["--fetch", "120000"]);
    let manager = ServerManager::new("m");
    let report = manager.refresh([config.startup_timeout(seconds(1))]);
    assert_eq!(report.await.unwrap().ready(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_slow_fetch_does_not_use_up_the_start_up_deadline_of_a_pool() {
    let fake = Fake::new();
    let config = fake.config("s", &["--fetch", "120000"]);
    let config = config.startup_timeout(seconds(1));
    let pool = ServerPool::new("p");
    let impatient = seconds(5);
    assert!(pool.acquire_within(&config, impatient).await.is_err());
    // The start goes on for the next one.
    let patient = seconds(200);
    drop(pool.acquire_within(&config, patient).await.unwrap());
    assert_eq!(fake.starts(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_observer_of_a_pool_sees_the_fetch_the_launch_and_the_exit() {
    let fake = Fake::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let events = Arc::clone(&seen);
    let tell = move |event: &ServerEvent| events.lock().unwrap().push(event.to_string());
    let pool = ServerPool::builder("p").observer(tell).build();
    let config = fake.config("s", &["--fetch", "10", "--die", "1000"]);
    let lease = pool.acquire(&config).await.unwrap();
    tokio::time::sleep(seconds(2)).await;
    drop(lease);
    let seen = seen.lock().unwrap();
    let told = |what: &str| seen.iter().any(|line| line.starts_with(what));
    for what in ["s of p: fetching", "s of p: launched in", "s of p: exited"] {
        assert!(told(what), "{what}: {seen:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_fetch_has_a_limit_of_its_own() {
    let fake = Fake::new();
    let config = fake.config("s", &["--fetch", "120000"]);
    let config = config.prepare_timeout(seconds(60));
    let error = mcp_lifecycle_core::LifecycleClient::start(config).await;
    let error = error.unwrap_err();
    assert_eq!(error.context().phase, StartPhase::Prepare);
    assert!(matches!(error.kind(), StartErrorKind::PrepareTimeout(limit) if *limit == seconds(60)));
    assert_eq!(fake.starts(), 0);
}
