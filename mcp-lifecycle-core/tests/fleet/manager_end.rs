//! Every way in which a manager can end.

use mcp_lifecycle_core::client::EndResult;
use mcp_lifecycle_core::fleet::{RefreshErrorKind, ServerManager};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::fake::{Fake, seconds};
use crate::log::Log;

#[tokio::test(start_paused = true)]
async fn a_shutdown_takes_as_long_as_the_slowest_server() {
    let fake = Fake::new();
    let manager = ServerManager::new("m");
    let stubborn = (0..50).map(|n| fake.config(&format!("s{n}"), &["--stubborn"]));
    manager.refresh(stubborn).await.unwrap();
    let begun = Instant::now();
    let report = manager.shutdown(seconds(60)).await.unwrap();
    assert_eq!(report.ends.len(), 50);
    assert!(begun.elapsed() < seconds(5), "{:?}", begun.elapsed());
    assert_eq!(fake.live(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_never_takes_longer_than_its_deadline() {
    let fake = Fake::new();
    let manager = ServerManager::new("m");
    manager
        .refresh([fake.config("s", &["--stubborn"])])
        .await
        .unwrap();
    let begun = Instant::now();
    manager.shutdown(seconds(1)).await.unwrap();
    assert!(begun.elapsed() <= seconds(1), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_does_not_die_is_named_and_stays_owned_until_it_does() {
    let fake = Fake::new();
    let log = Log::default();
    let manager = ServerManager::builder("m").observer(log.observer()).build();
    manager
        .refresh([
            fake.config("dies", &[]),
            fake.config("stays", &["--immortal"]),
        ])
        .await
        .unwrap();
    let begun = Instant::now();
    let error = manager.shutdown(seconds(2)).await.unwrap_err();
    assert!(begun.elapsed() <= seconds(2));
    let text = error.to_string();
    assert!(text.contains("1 of 2") && text.contains("stays"), "{text}");
    assert_eq!(manager.list().len(), 1, "it stays owned");
    fake.make_mortal();
    manager.shutdown(seconds(20)).await.unwrap();
    assert!(manager.list().is_empty());
    log.assert_balanced();
}

#[tokio::test(start_paused = true)]
async fn shutdown_twice_at_a_time_and_once_more() {
    let fake = Fake::new();
    let manager = ServerManager::new("m");
    manager.refresh([fake.config("s", &[])]).await.unwrap();
    let (one, two) = tokio::join!(manager.shutdown(seconds(5)), manager.shutdown(seconds(5)));
    assert_eq!(one.unwrap().ends.len(), two.unwrap().ends.len());
    manager.shutdown(seconds(5)).await.unwrap();
    let error = manager.refresh([fake.config("s", &[])]).await.unwrap_err();
    assert!(matches!(error.kind(), RefreshErrorKind::ShutDown));
    assert_eq!(fake.starts(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_goes_on_when_its_caller_gives_up() {
    let fake = Fake::new();
    let manager = ServerManager::new("m");
    manager
        .refresh([fake.config("s", &["--stubborn"])])
        .await
        .unwrap();
    let impatient = tokio::time::timeout(seconds(1), manager.shutdown(seconds(10))).await;
    assert!(impatient.is_err());
    tokio::time::sleep(seconds(10)).await;
    assert_eq!(fake.live(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_a_launch_a_handshake_and_a_queue() {
    let fake = Fake::new();
    let log = Log::default();
    let manager = ServerManager::builder("m")
        .concurrent_starts(2)
        .observer(log.observer())
        .build();
    let servers = [
        fake.config("a-launches", &["--slow", "60000"]),
        fake.config("b-shakes-hands", &["--silent"]),
        fake.config("c-waits", &[]),
    ];
    let refresh = manager.refresh(servers);
    tokio::pin!(refresh);
    let _ = tokio::time::timeout(seconds(1), &mut refresh).await;
    let report = manager.shutdown(seconds(5)).await.unwrap();
    assert!(matches!(
        refresh.await.unwrap_err().kind(),
        RefreshErrorKind::ShutDown
    ));
    assert_eq!(fake.live(), 0);
    assert_eq!(fake.starts(), 2, "what waited was never started");
    let result = |name: &str| {
        let end = report.ends.iter().find(|end| &*end.server == name).unwrap();
        end.result.clone().unwrap()
    };
    assert!(matches!(result("a-launches"), EndResult::NeverLaunched));
    assert!(matches!(result("b-shakes-hands"), EndResult::Proven(_)));
    log.assert_balanced();
    assert!(log.lines().contains(&"a-launches cancelled".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_during_a_refresh_ends_old_and_new() {
    let fake = Fake::new();
    let manager = ServerManager::builder("m").drain(seconds(30)).build();
    manager
        .refresh([fake.config("s", &["--stubborn"])])
        .await
        .unwrap();
    let refresh = manager.refresh([fake.config("s", &["--new"])]);
    tokio::pin!(refresh);
    let _ = tokio::time::timeout(seconds(1), &mut refresh).await;
    manager.shutdown(seconds(5)).await.unwrap();
    assert_eq!((fake.live(), fake.starts()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_ends_takes_the_manager_along() {
    let fake = Fake::new();
    let manager = ServerManager::new("m");
    let owner = CancellationToken::new();
    manager.tie_to(owner.clone().cancelled_owned(), seconds(5));
    manager.refresh([fake.config("s", &[])]).await.unwrap();
    // Kept alive by somebody who has forgotten about it.
    let forgotten = std::sync::Arc::new(manager);
    owner.cancel();
    tokio::time::sleep(seconds(1)).await;
    assert_eq!(fake.live(), 0);
    assert!(forgotten.list().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_channel_that_closes_takes_the_manager_along() {
    let fake = Fake::new();
    let manager = ServerManager::new("m");
    let (commands, mut inbox) = tokio::sync::mpsc::channel::<()>(1);
    manager.tie_to(
        async move { while inbox.recv().await.is_some() {} },
        seconds(5),
    );
    manager.refresh([fake.config("s", &[])]).await.unwrap();
    drop(commands);
    tokio::time::sleep(seconds(1)).await;
    assert_eq!(fake.live(), 0);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_manager_kills_synchronously_in_every_phase() {
    let fake = Fake::new();
    let manager = ServerManager::new("m");
    let servers = [
        fake.config("launches", &["--slow", "60000"]),
        fake.config("ready", &["--stubborn"]),
        fake.config("shakes-hands", &["--silent"]),
    ];
    let _ = tokio::time::timeout(seconds(1), manager.refresh(servers)).await;
    drop(manager);
    // No await since: the launch has been dropped, the others were killed.
    assert_eq!(fake.world.lock().unwrap().launching, 0);
    tokio::task::yield_now().await;
    assert_eq!(fake.live(), 0);
}

#[test]
fn a_manager_that_outlives_its_runtime_leaves_nothing() {
    let fake = Fake::new();
    let log = Log::default();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(1)
        .build()
        .unwrap();
    let manager = runtime.block_on(async {
        let manager = ServerManager::builder("m").observer(log.observer()).build();
        manager
            .refresh([fake.config("s", &["--stubborn"])])
            .await
            .unwrap();
        manager
    });
    drop(runtime);
    drop(manager);
    log.assert_balanced();
}
