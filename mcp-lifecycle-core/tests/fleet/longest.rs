//! The upper bound of a termination holds, whatever server and launcher do; and within
//! it nobody is hurried.

use std::sync::Arc;
use std::time::Duration;

use mcp_lifecycle_core::client::{LifecycleClient, ProtocolPreference, ServerConfig};
use mcp_lifecycle_core::launch::ServerSpec;
use mcp_lifecycle_core::terminate::{EndReason, Phase, TerminationPolicy};
use proptest::prelude::*;
use tokio::time::Instant;

use crate::fake::{Fake, call};
use crate::moody::{Mood, Moods, Moody};

async fn client(
    fake: &Arc<Fake>,
    moods: Moods,
    args: &[&str],
    policy: &TerminationPolicy,
) -> (Arc<Moody>, LifecycleClient) {
    let launcher = Moody::new(fake, moods);
    let spec = ServerSpec::builder("s", "fake").args(args).build().unwrap();
    let client = LifecycleClient::builder(
        ServerConfig::new(launcher.clone(), spec)
            .protocol(ProtocolPreference::Legacy)
            .termination(policy.clone()),
    )
    .start()
    .await
    .unwrap();
    (launcher, client)
}

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[tokio::test(start_paused = true)]
async fn a_polite_request_that_is_acknowledged_late_is_not_a_failed_step() {
    let fake = Fake::new();
    let policy = TerminationPolicy::new()
        .eof_grace(Duration::ZERO)
        .term_grace(millis(10_000));
    let moods = Moods {
        ask: Mood::Late(3_000),
        ..Moods::default()
    };
    let (_, client) = client(&fake, moods, &["--deaf-to-eof"], &policy).await;
    let begun = Instant::now();
    let report = client.shutdown().await.unwrap();
    assert_eq!(report.ended_in(), Some(Phase::RequestEnd), "{report:?}");
    assert!(report.phases.iter().all(|phase| phase.failure.is_none()));
    assert!(begun.elapsed() >= millis(3_000));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_fails_is_followed_by_force_at_once() {
    let fake = Fake::new();
    let policy = TerminationPolicy::new()
        .eof_grace(Duration::ZERO)
        .term_grace(millis(10_000));
    let moods = Moods {
        ask: Mood::Fails(100),
        ..Moods::default()
    };
    let (_, client) = client(&fake, moods, &["--deaf-to-eof"], &policy).await;
    let begun = Instant::now();
    let report = client.shutdown().await.unwrap();
    assert_eq!(report.ended_in(), Some(Phase::ForceEnd));
    assert!(begun.elapsed() < millis(200), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_force_that_is_never_acknowledged_is_overtaken_by_the_synchronous_kill() {
    for force in [Mood::Hangs, Mood::Fails(10)] {
        let fake = Fake::new();
        let moods = Moods {
            force,
            ..Moods::default()
        };
        let policy = TerminationPolicy::immediate();
        let (_, client) = client(&fake, moods, &["--stubborn"], &policy).await;
        client.shutdown().await.unwrap();
        assert_eq!(fake.live(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_without_proof_climbs_one_ladder_and_says_how_long_it_took() {
    let fake = Fake::new();
    let policy = TerminationPolicy::new();
    let (_, client) = client(&fake, Moods::default(), &["--immortal"], &policy).await;
    for _ in 0..2 {
        let begun = Instant::now();
        let error = client.shutdown().await.unwrap_err();
        assert!(begun.elapsed() <= policy.longest(), "{:?}", begun.elapsed());
        let untold = begun.elapsed().abs_diff(error.context().took);
        assert!(untold < millis(5), "{:?}: {error}", begun.elapsed());
    }
    fake.make_mortal();
    client.shutdown().await.unwrap();
}

fn mood() -> impl Strategy<Value = Mood> {
    let ms = || prop_oneof![0_u64..50, 0_u64..5_000];
    prop_oneof![
        Just(Mood::Prompt),
        ms().prop_map(Mood::Late),
        ms().prop_map(Mood::Fails),
        Just(Mood::Hangs),
    ]
}

fn moods() -> impl Strategy<Value = Moods> {
    let all = (mood(), mood(), mood(), mood(), mood(), any::<bool>());
    all.prop_map(|(close, ask, force, gone, survivors, deaf)| Moods {
        close,
        ask,
        force,
        gone,
        survivors,
        deaf,
        ..Moods::default()
    })
}

fn policy() -> impl Strategy<Value = TerminationPolicy> {
    let wait = || prop_oneof![Just(0_u64), 1_u64..100, 1_u64..5_000].prop_map(millis);
    let waits = (wait(), wait(), wait(), wait(), wait(), wait(), wait());
    waits.prop_map(|(drain, flush, eof, stragglers, term, kill, report)| {
        let mut policy = TerminationPolicy::new()
            .drain(drain)
            .eof_grace(eof)
            .term_grace(term)
            .kill_confirmation(kill)
            .report_limit(report);
        policy.flush = flush;
        policy.straggler_grace = stragglers;
        policy
    })
}

/// Timers have a resolution of a millisecond, and a termination has a few.
const RESOLUTION: Duration = Duration::from_millis(15);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_termination_takes_longer_than_the_longest(
        moods in moods(),
        policy in policy(),
        habit in prop_oneof![
            Just("--none"),
            Just("--stubborn"),
            Just("--immortal"),
            Just("--deaf-to-eof"),
            Just("--unread"),
        ],
        in_flight in proptest::option::of(0_u64..6_000),
        crash_after in proptest::option::of(0_u64..3_000),
    ) {
        crate::same_config::paused(async {
            let fake = Fake::new();
            let (_, client) = client(&fake, moods, &[habit], &policy).await;
            if let Some(ms) = in_flight {
                let peer = client.peer().clone();
                tokio::spawn(async move { peer.call_tool(call(ms)).await });
                tokio::task::yield_now().await;
            }
            if let Some(ms) = crash_after {
                let fake = Arc::clone(&fake);
                tokio::spawn(async move {
                    tokio::time::sleep(millis(ms)).await;
                    fake.crash("s");
                });
            }
            let limit = policy.longest() + RESOLUTION;
            for _ in 0..2 {
                let begun = Instant::now();
                let outcome = client
                    .shutdown_with(EndReason::Shutdown, policy.clone())
                    .await;
                let elapsed = begun.elapsed();
                assert!(elapsed <= limit, "{elapsed:?} of {limit:?}: {outcome:?}");
                if outcome.is_ok() {
                    break;
                }
            }
        });
    }
}
