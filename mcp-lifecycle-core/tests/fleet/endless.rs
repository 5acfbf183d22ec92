//! `Duration::MAX` says "for ever", wherever a time is asked for.

use std::sync::Arc;
use std::time::Duration;

use mcp_lifecycle_core::client::{
    CallErrorKind, CallOptions, LifecycleClient, ProtocolPreference, ServerConfig,
};
use mcp_lifecycle_core::fleet::{
    FleetOptions, FleetServer, RestartPolicy, ServerManager, ServerPool,
};
use mcp_lifecycle_core::launch::{ExitStatus, ServerSpec};
use mcp_lifecycle_core::terminate::TerminationPolicy;

use crate::fake::{Fake, call, seconds};
use crate::moody::{Moods, Moody};

const EVER: Duration = Duration::MAX;

fn policy() -> TerminationPolicy {
    let mut policy = TerminationPolicy::new()
        .drain(EVER)
        .eof_grace(EVER)
        .term_grace(EVER)
        .kill_confirmation(EVER)
        .report_limit(EVER);
    policy.flush = EVER;
    policy.straggler_grace = EVER;
    policy
}

fn endless(config: ServerConfig) -> FleetServer {
    let restart = RestartPolicy::new()
        .backoff(EVER, EVER)
        .sustained_uptime(EVER)
        .max_restarts(1)
        .cooldown(Some(EVER));
    config
        .startup_timeout(EVER)
        .termination(policy())
        .call_options(CallOptions::new().timeout(EVER).reset_on_progress(EVER))
        .in_fleet(FleetOptions::new().restart(restart).idle_ttl(EVER))
}

#[tokio::test(start_paused = true)]
async fn a_client_takes_endless_times() {
    let fake = Fake::new();
    let spec = ServerSpec::builder("s", "fake").build().unwrap();
    let client = LifecycleClient::builder(
        ServerConfig::new(fake.clone(), spec)
            .protocol(ProtocolPreference::Legacy)
            .startup_timeout(EVER)
            .termination(policy())
            .call_options(CallOptions::new().timeout(EVER).reset_on_progress(EVER)),
    )
    .start()
    .await
    .unwrap();
    client.call_tool(call(10)).await.unwrap();
    assert_eq!(policy().longest(), EVER);
    client.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_manager_and_a_pool_take_endless_times() {
    let fake = Fake::new();
    let manager = ServerManager::builder("m").drain(EVER).build();
    let pool = ServerPool::builder("p").drain(EVER).build();
    let config = endless(fake.config("s", &[]));
    manager.refresh([config.clone()]).await.unwrap();
    let peer = manager.ready("s", EVER).await.unwrap();
    peer.call_tool(call(10)).await.unwrap();
    let scope = pool.scope("a");
    let options = EVER;
    let lease = scope.acquire_within(&config, options).await.unwrap();
    lease.call_tool(call(10)).await.unwrap();
    drop(lease);
    tokio::time::sleep(seconds(3600)).await;
    // Never again, and nobody is wedged by that.
    fake.crash("s");
    tokio::time::sleep(seconds(3600)).await;
    assert_eq!(fake.starts(), 2);
    manager.retry("s");
    manager.ready("s", EVER).await.unwrap();
    scope.end(EVER).await.unwrap();
    manager.shutdown(EVER).await.unwrap();
    pool.shutdown(EVER).await.unwrap();
    assert_eq!(fake.live(), 0);
}

async fn patient(fake: &Arc<Fake>, moods: Moods) -> LifecycleClient {
    let mut patient = TerminationPolicy::new();
    patient.eof_grace = EVER;
    let spec = ServerSpec::builder("s", "fake").build().unwrap();
    LifecycleClient::builder(
        ServerConfig::new(Moody::new(fake, moods), spec)
            .protocol(ProtocolPreference::Legacy)
            .termination(patient),
    )
    .start()
    .await
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_endless_grace_leaves_time_for_a_late_exit_status() {
    let moods = Moods {
        late_exit: 100,
        ..Moods::default()
    };
    let client = patient(&Fake::new(), moods).await;
    let report = client.shutdown().await.unwrap();
    assert_eq!(report.exit, ExitStatus::Code(0));
}

#[tokio::test(start_paused = true)]
async fn an_endless_grace_leaves_time_for_the_last_words() {
    let fake = Fake::new();
    let moods = Moods {
        last_words: true,
        ..Moods::default()
    };
    let client = patient(&fake, moods).await;
    let peer = client.peer().clone();
    let calling = tokio::spawn(async move { peer.call_tool(call(60_000)).await });
    tokio::time::sleep(seconds(1)).await;
    fake.crash("s");
    let error = calling.await.unwrap().unwrap_err();
    let CallErrorKind::ServerDied { stderr_tail, .. } = error.kind() else {
        panic!("{error}");
    };
    assert_eq!(*stderr_tail, ["last words"]);
}
