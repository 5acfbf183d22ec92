//! A proof that cannot be had now is tried again, and the server goes on with it.

use std::sync::Arc;
use std::time::Duration;

use mcp_lifecycle_core::client::{ProtocolPreference, ServerConfig};
use mcp_lifecycle_core::fleet::{
    AcquireErrorKind, FleetOptions, FleetServer, Replacement, RestartPolicy, ServerManager,
    ServerPool, ServerState, StartOutcome,
};
use mcp_lifecycle_core::launch::{ServerIdentity, ServerSpec};
use mcp_lifecycle_core::terminate::TerminationPolicy;

use crate::fake::{Fake, seconds};
use crate::log::Log;
use crate::moody::{Mood, Moods, Moody};

/// Nothing can be proven: as of a machine whose connection is lost.
const LOST: Moods = Moods {
    close: Mood::Prompt,
    ask: Mood::Fails(0),
    force: Mood::Fails(0),
    gone: Mood::Fails(0),
    survivors: Mood::Fails(0),
    late_exit: 0,
    last_words: false,
    kill_panics: false,
    drop_panics: false,
    deaf: true,
};

fn config(launcher: &Arc<Moody>, args: &[&str]) -> FleetServer {
    let spec = ServerSpec::builder("s", "fake").args(args).build().unwrap();
    let at_once = RestartPolicy::new().backoff(Duration::ZERO, Duration::ZERO);
    ServerConfig::new(launcher.clone(), spec)
        .protocol(ProtocolPreference::Legacy)
        .termination(TerminationPolicy::immediate())
        .in_fleet(FleetOptions::new().restart(at_once))
}

fn state(manager: &ServerManager) -> ServerState {
    manager.list()[0].state
}

/// A manager whose server is lost and not proven gone.
async fn unproven(fake: &Arc<Fake>, launcher: &Arc<Moody>, log: &Log) -> ServerManager {
    let manager = ServerManager::builder("m").observer(log.observer()).build();
    manager.refresh([config(launcher, &[])]).await.unwrap();
    launcher.set(LOST);
    fake.crash("s");
    // Many attempts, so that the next is as far away as it ever is.
    tokio::time::sleep(seconds(700)).await;
    assert_eq!(state(&manager), ServerState::Unproven);
    manager
}

#[tokio::test(start_paused = true)]
async fn a_slot_goes_on_by_itself_when_its_launcher_can_conclude() {
    let (fake, log) = (Fake::new(), Log::default());
    let launcher = Moody::new(&fake, Moods::default());
    let manager = unproven(&fake, &launcher, &log).await;
    launcher.set(Moods::default());
    manager.ready("s", seconds(35)).await.unwrap();
    manager.shutdown(seconds(5)).await.unwrap();
    log.assert_balanced();
}

#[tokio::test(start_paused = true)]
async fn a_launcher_that_waits_for_the_proof_is_heard_at_once() {
    let fake = Fake::new();
    let manager = ServerManager::new("m");
    let immortal = || fake.config("s", &["--immortal"]);
    manager.refresh([immortal()]).await.unwrap();
    let replaced = manager.refresh([fake.config("s", &[])]).await.unwrap();
    assert!(matches!(
        replaced.servers[0].start,
        Some(StartOutcome::Blocked)
    ));
    tokio::time::sleep(seconds(700)).await;
    fake.crash("s");
    manager
        .ready("s", Duration::from_millis(100))
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_retry_by_hand_tries_to_prove_at_once() {
    let (fake, log) = (Fake::new(), Log::default());
    let launcher = Moody::new(&fake, Moods::default());
    let manager = unproven(&fake, &launcher, &log).await;
    launcher.set(Moods::default());
    assert!(manager.retry("s"));
    manager
        .ready("s", Duration::from_millis(100))
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_retry_by_hand_reaches_the_predecessor_too() {
    let (fake, log) = (Fake::new(), Log::default());
    let launcher = Moody::new(&fake, Moods::default());
    let manager = unproven(&fake, &launcher, &log).await;
    let elsewhere = || fake.config("s", &["--elsewhere"]);
    let report = manager.refresh([elsewhere()]).await.unwrap();
    assert!(matches!(
        report.servers[0].start,
        Some(StartOutcome::Blocked)
    ));
    tokio::time::sleep(seconds(700)).await;
    launcher.set(Moods::default());
    manager.retry("s");
    manager
        .ready("s", Duration::from_millis(100))
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_refresh_tries_to_prove_at_once() {
    for args in [&[][..], &["--changed"]] {
        let (fake, log) = (Fake::new(), Log::default());
        let launcher = Moody::new(&fake, Moods::default());
        let manager = unproven(&fake, &launcher, &log).await;
        launcher.set(Moods::default());
        let report = manager.refresh([config(&launcher, args)]).await.unwrap();
        assert_eq!(report.ready(), 1, "{report}");
        assert!(manager.server("s").is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_pool_tries_to_prove_for_whoever_wants_the_server() {
    let fake = Fake::new();
    let launcher = Moody::new(&fake, Moods::default());
    let pool = ServerPool::new("p");
    let wanted = config(&launcher, &[]);
    let scope = pool.scope("a");
    let lease = scope.acquire(&wanted).await.unwrap();
    launcher.set(LOST);
    fake.crash("s");
    tokio::time::sleep(seconds(700)).await;
    drop(lease);
    let error = scope.acquire(&wanted).await.unwrap_err();
    assert!(
        matches!(error.kind(), AcquireErrorKind::Unproven(_)),
        "{error}"
    );
    // A scope that ended leaves a predecessor that stands in the way just so.
    drop(scope.end(seconds(1)).await.unwrap_err());
    let scope = pool.scope("a");
    let error = scope.acquire(&wanted).await.unwrap_err();
    assert!(
        matches!(error.kind(), AcquireErrorKind::Unproven(_)),
        "{error}"
    );
    launcher.set(Moods::default());
    let _lease = scope.acquire(&wanted).await.unwrap();
    assert_eq!(fake.live(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refresh_beside_returns_when_the_new_server_has_taken_over() {
    let fake = Fake::new();
    let manager = ServerManager::builder("m")
        .replacement(Replacement::Beside)
        .build();
    for n in 0..200 {
        let config = fake.config("s", &[&format!("--version-{n}")]);
        manager.refresh([config]).await.unwrap();
        assert!(manager.server("s").is_some(), "refresh {n}");
        let ready =
            |record: &&mcp_lifecycle_core::fleet::ServerRecord| record.state == ServerState::Ready;
        assert_eq!(
            manager.list().iter().filter(ready).count(),
            1,
            "refresh {n}"
        );
    }
}

#[test]
fn what_was_lost_with_its_runtime_is_proven_by_another() {
    let fake = Fake::new();
    let log = Log::default();
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .worker_threads(1)
            .build()
            .unwrap()
    };
    let first = runtime();
    let manager = first.block_on(async {
        let manager = ServerManager::builder("m").observer(log.observer()).build();
        let stubborn = fake.config("s", &["--stubborn"]);
        manager.refresh([stubborn]).await.unwrap();
        manager
    });
    drop(first);
    runtime().block_on(async {
        manager.shutdown(seconds(5)).await.unwrap();
        assert!(manager.list().is_empty());
    });
    log.assert_balanced();
}

/// By its identity, which no other server has; and not before it is unproven.
#[tokio::test(start_paused = true)]
async fn a_server_that_somebody_writes_off_gives_its_slot_back() {
    let (fake, log) = (Fake::new(), Log::default());
    let launcher = Moody::new(&fake, Moods::default());
    let manager = unproven(&fake, &launcher, &log).await;
    let identity = manager.list()[0].identity.clone().unwrap();
    let stranger = ServerIdentity::Other("another".to_owned());
    assert!(!manager.write_off(&stranger));
    tokio::time::sleep(seconds(100)).await;
    assert_eq!(state(&manager), ServerState::Unproven);
    assert!(manager.write_off(&identity));
    launcher.set(Moods::default());
    manager.ready("s", seconds(100)).await.unwrap();
    assert_eq!(manager.list()[0].generation, 2);
    assert!(!manager.write_off(&identity), "it runs");
    let lines = log.lines();
    let ended = lines.iter().filter(|line| *line == "s ended").count();
    assert_eq!(ended, 1, "{lines:?}");
    manager.shutdown(seconds(5)).await.unwrap();
    log.assert_balanced();
}

/// One that was written off leaves nothing to be proven at the owner's end.
#[tokio::test(start_paused = true)]
async fn a_pool_ends_without_an_error_for_what_was_written_off() {
    let fake = Fake::new();
    let launcher = Moody::new(&fake, Moods::default());
    let pool = ServerPool::new("p");
    let wanted = config(&launcher, &[]);
    let lease = pool.acquire(&wanted).await.unwrap();
    launcher.set(LOST);
    fake.crash("s");
    tokio::time::sleep(seconds(700)).await;
    drop(lease);
    let identity = pool.list()[0].identity.clone().unwrap();
    assert!(pool.write_off(&identity));
    tokio::time::sleep(seconds(1)).await;
    pool.shutdown(seconds(5)).await.unwrap();
}
