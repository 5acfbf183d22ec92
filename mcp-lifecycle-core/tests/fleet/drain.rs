//! While the calls in flight drain: new ones are refused at once, with the reason, and
//! a death is told as one.

use std::sync::Arc;

use mcp_lifecycle_core::client::{
    CallErrorKind, ClientState, LifecycleClient, ProtocolPreference, ServerConfig, StartErrorKind,
};
use mcp_lifecycle_core::launch::{ExitStatus, ServerSpec};
use mcp_lifecycle_core::terminate::{EndReason, TerminationPolicy};
use tokio::time::Instant;

use crate::fake::{Fake, call, seconds};

async fn draining(fake: &Arc<Fake>, reason: EndReason) -> Arc<LifecycleClient> {
    let spec = ServerSpec::builder("s", "fake").build().unwrap();
    let client = LifecycleClient::builder(
        ServerConfig::new(fake.clone(), spec).protocol(ProtocolPreference::Legacy),
    )
    .start()
    .await
    .unwrap();
    let client = Arc::new(client);
    let peer = client.peer().clone();
    tokio::spawn(async move { peer.call_tool(call(8_000)).await });
    tokio::time::sleep(seconds(1)).await;
    client.begin_shutdown(reason, TerminationPolicy::new().drain(seconds(10)));
    client
}

#[tokio::test(start_paused = true)]
async fn a_new_call_is_refused_at_once_with_the_reason() {
    let fake = Fake::new();
    let client = draining(&fake, EndReason::ConfigChanged).await;
    // In the same instant, and later.
    for _ in 0..2 {
        let begun = Instant::now();
        let error = client.call_tool(call(0)).await.unwrap_err();
        assert_eq!(begun.elapsed(), seconds(0));
        assert!(
            matches!(error.kind(), CallErrorKind::Ending(reason) if *reason == EndReason::ConfigChanged),
            "{error}"
        );
        tokio::time::sleep(seconds(1)).await;
    }
    let report = client.ended().await.unwrap();
    assert_eq!(report.reason, EndReason::ConfigChanged);
    assert!(
        report.took >= seconds(6),
        "the drain counts: {:?}",
        report.took
    );
    let error = client.call_tool(call(0)).await.unwrap_err();
    assert!(matches!(error.kind(), CallErrorKind::Ending(_)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_dies_in_the_drain_has_died() {
    let fake = Fake::new();
    let client = draining(&fake, EndReason::Shutdown).await;
    let peer = client.peer().clone();
    // Under way before the end began? No: this one is refused; those in flight are not.
    assert!(peer.call_tool(call(0)).await.is_err());
    fake.crash("s");
    let begun = Instant::now();
    let mut state = client.state();
    let seen = state
        .wait_for(|state| matches!(state.end_reason(), Some((EndReason::ServerExited, _))))
        .await
        .unwrap()
        .clone();
    assert!(
        matches!(seen.end_reason(), Some((_, Some(ExitStatus::Signal(9))))),
        "{seen:?}"
    );
    let report = client.ended().await.unwrap();
    assert!(begun.elapsed() < seconds(1), "nobody waits for the dead");
    assert_eq!(report.reason, EndReason::ServerExited);
    let error = peer.call_tool(call(0)).await.unwrap_err();
    assert!(
        matches!(
            error.kind(),
            CallErrorKind::ServerDied {
                exit: ExitStatus::Signal(9),
                ..
            }
        ),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn calls_in_flight_of_a_server_that_dies_in_the_drain_say_that_it_died() {
    let fake = Fake::new();
    let spec = ServerSpec::builder("s", "fake").build().unwrap();
    let client = LifecycleClient::builder(
        ServerConfig::new(fake.clone(), spec).protocol(ProtocolPreference::Legacy),
    )
    .start()
    .await
    .unwrap();
    let peer = client.peer().clone();
    let in_flight = tokio::spawn(async move { peer.call_tool(call(8_000)).await });
    tokio::time::sleep(seconds(1)).await;
    client.begin_shutdown(
        EndReason::Shutdown,
        TerminationPolicy::new().drain(seconds(10)),
    );
    tokio::time::sleep(seconds(1)).await;
    fake.crash("s");
    let error = in_flight.await.unwrap().unwrap_err();
    assert!(
        matches!(error.kind(), CallErrorKind::ServerDied { .. }),
        "{error}"
    );
    assert!(matches!(
        *client.state().borrow(),
        ClientState::Ending { .. } | ClientState::Ended { .. }
    ));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_closes_its_output_in_the_handshake_is_not_said_to_have_exited() {
    let fake = Fake::new();
    let spec = ServerSpec::builder("s", "fake")
        .arg("--mute")
        .build()
        .unwrap();
    let error = LifecycleClient::builder(
        ServerConfig::new(fake.clone(), spec).protocol(ProtocolPreference::Legacy),
    )
    .start()
    .await
    .unwrap_err();
    assert!(
        matches!(error.kind(), StartErrorKind::OutputClosed),
        "{:?}",
        error.kind()
    );
}
