//! Leases, scopes and who shares what.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use mcp_lifecycle_core::fleet::{AcquireErrorKind, FleetOptions, KeptBy, ServerPool, Sharing};
use tokio::time::Instant;

use crate::fake::{Fake, call, seconds};
use crate::log::Log;

#[tokio::test(start_paused = true)]
async fn leases_of_the_same_server_share_one_process() {
    let fake = Fake::new();
    let pool = ServerPool::new("p");
    let server = fake.config("s", &["--slow", "1000"]);
    let (one, two) = tokio::join!(pool.acquire(&server), pool.acquire(&server));
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!(
        (fake.starts(), one.generation(), two.generation()),
        (1, 1, 1)
    );
    assert_eq!(pool.list()[0].leases, 2);
    one.call_tool(call(1)).await.unwrap();
    pool.shutdown(seconds(5)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn other_credentials_or_scopes_never_share() {
    let fake = Fake::new();
    let pool = ServerPool::new("p");
    let (agent, mine) = (pool.scope("agent-1"), pool.scope("agent-1/me"));
    let leases = [
        pool.acquire(&fake.config_env("s", &[], "a")).await.unwrap(),
        pool.acquire(&fake.config_env("s", &[], "b")).await.unwrap(),
        agent
            .acquire(&fake.config_env("s", &[], "a"))
            .await
            .unwrap(),
        mine.acquire(&fake.config_env("s", &[], "a")).await.unwrap(),
    ];
    assert_eq!((fake.starts(), leases.len()), (4, 4));
    pool.shutdown(seconds(5)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_waiter_does_not_cancel_the_others() {
    let fake = Fake::new();
    let pool = ServerPool::new("p");
    let server = fake.config("s", &["--slow", "2000"]);
    let impatient = seconds(1);
    let (gave_up, waited) = tokio::join!(
        pool.acquire_within(&server, impatient),
        pool.acquire(&server)
    );
    assert!(matches!(
        gave_up.unwrap_err().kind(),
        AcquireErrorKind::TimedOut { .. }
    ));
    drop(waited.unwrap());
    assert_eq!(fake.starts(), 1);
    pool.shutdown(seconds(5)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_exclusive_server_is_leased_to_one_at_a_time() {
    let fake = Fake::new();
    let pool = ServerPool::new("p");
    let server = fake
        .config("s", &[])
        .in_fleet(FleetOptions::new().sharing(Sharing::Exclusive));
    let first = pool.acquire(&server).await.unwrap();
    let impatient = seconds(1);
    let error = pool.acquire_within(&server, impatient).await.unwrap_err();
    let who = "not ready within 1s; held by s of p (1 lease)";
    assert!(error.to_string().ends_with(who), "{error}");
    let second = pool.acquire(&server);
    tokio::pin!(second);
    assert!(tokio::time::timeout(seconds(1), &mut second).await.is_err());
    drop(first);
    drop(second.await.unwrap());
    assert_eq!(fake.starts(), 1, "the process is used again");
    pool.shutdown(seconds(5)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lease_returned_twice_is_returned_once() {
    let fake = Fake::new();
    let pool = ServerPool::new("p");
    let server = fake.config("s", &[]);
    let mut one = pool.acquire(&server).await.unwrap();
    let _two = pool.acquire(&server).await.unwrap();
    one.release();
    one.release();
    drop(one);
    assert_eq!(pool.list()[0].leases, 1);
    pool.shutdown(seconds(5)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_dead_server_is_not_leased() {
    let fake = Fake::new();
    let pool = ServerPool::new("p");
    let server = fake.config("s", &[]);
    let old = pool.acquire(&server).await.unwrap();
    fake.crash("s");
    tokio::time::sleep(seconds(1)).await;
    let new = pool.acquire(&server).await.unwrap();
    assert_eq!((old.generation(), new.generation()), (1, 2));
    drop(old);
    assert_eq!(
        pool.list()[0].leases,
        1,
        "an old lease frees no place in a new process"
    );
    new.call_tool(call(1)).await.unwrap();
    pool.shutdown(seconds(5)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_idle_server_ends_after_its_idle_time_and_a_call_holds_it() {
    let fake = Fake::new();
    let pool = ServerPool::new("p");
    let server = fake
        .config("s", &[])
        .in_fleet(FleetOptions::new().idle_ttl(Some(seconds(60))));
    let lease = pool.acquire(&server).await.unwrap();
    let peer = lease.peer().clone();
    let flying = tokio::spawn(async move { peer.call_tool(call(90_000)).await });
    tokio::task::yield_now().await;
    drop(lease);
    tokio::time::sleep(seconds(89)).await;
    assert_eq!(pool.list()[0].kept_by, KeptBy::Calls);
    flying.await.unwrap().expect("its call was in flight");
    tokio::time::sleep(seconds(25)).await;
    assert_eq!(pool.list()[0].kept_by, KeptBy::IdleTime);
    tokio::time::sleep(seconds(40)).await;
    assert_eq!((fake.live(), pool.list().len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn without_an_idle_time_a_server_stays_for_ever() {
    let fake = Fake::new();
    let pool = ServerPool::new("p");
    let server = fake
        .config("s", &[])
        .in_fleet(FleetOptions::new().idle_ttl(None));
    drop(pool.acquire(&server).await.unwrap());
    tokio::time::sleep(seconds(24 * 3600)).await;
    assert_eq!(fake.live(), 1);
    pool.shutdown(seconds(5)).await.unwrap();
}

/// However often in a row: no message is waited for.
#[tokio::test(start_paused = true)]
async fn a_ready_server_is_leased_at_once() {
    let fake = Fake::new();
    let pool = ServerPool::new("p");
    let server = fake.config("s", &[]);
    drop(pool.acquire(&server).await.unwrap());
    for _ in 0..1000 {
        let lease = pin!(pool.acquire(&server));
        let lease = lease.poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(lease, Poll::Ready(Ok(_))));
    }
    pool.shutdown(seconds(5)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn for_a_caller_that_has_gone_nothing_starts() {
    let fake = Fake::new();
    let pool = ServerPool::new("p");
    let server = fake.config("s", &["--stubborn"]);
    drop(pool.scope("agent").acquire(&server).await.unwrap());
    let agent = pool.scope("agent");
    let waits_for_its_predecessor = agent.acquire(&server);
    let cancelled = tokio::time::timeout(seconds(1), waits_for_its_predecessor).await;
    assert!(cancelled.is_err());
    tokio::time::sleep(seconds(20)).await;
    assert_eq!((fake.starts(), fake.live()), (1, 0));
    pool.shutdown(seconds(5)).await.unwrap();
}

/// An equal launcher of a later request may have a better connection.
#[tokio::test(start_paused = true)]
async fn settings_of_a_request_count_from_the_next_start() {
    let fake = Fake::new();
    let pool = ServerPool::new("p");
    let config = fake.config("s", &["--slow", "1000"]);
    let server = |ttl| { config.clone() }.in_fleet(FleetOptions::new().idle_ttl(ttl));
    let (brief, lasting) = (server(Some(seconds(60))), server(None));
    let (one, two) = tokio::join!(pool.acquire(&brief), pool.acquire(&lasting));
    drop((one.unwrap(), two.unwrap()));
    tokio::time::sleep(seconds(90)).await;
    assert_eq!(fake.live(), 0, "it was started by the first request");
    let old = pool.acquire(&brief).await.unwrap();
    fake.crash("s");
    tokio::time::sleep(seconds(1)).await;
    drop(pool.acquire(&lasting).await.unwrap());
    drop(old);
    tokio::time::sleep(seconds(3600)).await;
    assert_eq!(fake.live(), 1, "it was started by the last request");
    pool.shutdown(seconds(5)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_scope_that_ends_takes_everything_in_it_along() {
    let fake = Fake::new();
    let log = Log::default();
    let pool = ServerPool::builder("p").observer(log.observer()).build();
    let agent = pool.scope("agent-1");
    let other = pool.scope("agent-2");
    let lease = agent.acquire(&fake.config("leased", &[])).await.unwrap();
    drop(agent.acquire(&fake.config("idle", &[])).await.unwrap());
    let _stays = other.acquire(&fake.config("stays", &[])).await.unwrap();
    let report = agent.end(seconds(5)).await.unwrap();
    assert_eq!(report.ends.len(), 2);
    assert_eq!(fake.live(), 1);
    lease.call_tool(call(1)).await.unwrap_err();
    let error = agent.acquire(&fake.config("late", &[])).await.unwrap_err();
    assert!(
        matches!(error.kind(), AcquireErrorKind::Retired(_)),
        "{error}"
    );
    // The same name is a new scope.
    let new = fake.config("new", &[]);
    drop(pool.scope("agent-1").acquire(&new).await.unwrap());
    pool.shutdown(seconds(5)).await.unwrap();
    log.assert_balanced();
}

#[tokio::test(start_paused = true)]
async fn a_scope_ends_with_its_last_handle() {
    let fake = Fake::new();
    let pool = ServerPool::new("p");
    let one = pool.scope("agent");
    let two = pool.scope("agent");
    let _lease = one.acquire(&fake.config("s", &[])).await.unwrap();
    drop(one);
    tokio::time::sleep(seconds(1)).await;
    assert_eq!(fake.live(), 1, "there is another handle");
    drop(two);
    tokio::time::sleep(seconds(1)).await;
    assert_eq!(fake.live(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_started_again_in_a_scope_waits_for_its_predecessor() {
    let fake = Fake::new();
    let pool = ServerPool::new("p");
    let server = fake.config("s", &["--stubborn"]);
    let agent = pool.scope("agent");
    let _lease = agent.acquire(&server).await.unwrap();
    drop(agent);
    let begun = Instant::now();
    drop(pool.scope("agent").acquire(&server).await.unwrap());
    assert!(
        begun.elapsed() >= seconds(4),
        "not before the graces are over"
    );
    assert_eq!(fake.most("s"), 1);
    pool.shutdown(seconds(10)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn dropping_the_pool_kills_what_is_leased() {
    let fake = Fake::new();
    let pool = ServerPool::new("p");
    let lease = pool
        .acquire(&fake.config("s", &["--stubborn"]))
        .await
        .unwrap();
    drop(pool);
    tokio::task::yield_now().await;
    assert_eq!(fake.live(), 0);
    drop(lease);
}
