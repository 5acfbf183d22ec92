//! A server that closes one of its streams, and lives: its calls fail at once and say
//! why, it is ended, and a manager starts another one.

use std::sync::Arc;
use std::time::Duration;

use mcp_lifecycle_core::client::{CallErrorKind, LifecycleClient, OwnedTransport, ServerConfig};
use mcp_lifecycle_core::fleet::ServerManager;
use mcp_lifecycle_core::launch::{LaunchContext, ServerLauncher};
use mcp_lifecycle_core::terminate::{EndReason, TerminationPolicy};
use rmcp::ServiceExt;

use crate::fake::{Fake, Streams, call, close, seconds};

/// Far longer than anything here takes, and far shorter than the time of a call (300 s).
const LIMIT: Duration = Duration::from_secs(20);

const ALL: &[Streams] = &[
    Streams::Memory,
    #[cfg(unix)]
    Streams::Pipes,
    #[cfg(unix)]
    Streams::Sockets,
];

/// Each stream a server can close, with the reason of its end.
const HALVES: [(&str, EndReason); 3] = [
    ("input", EndReason::InputClosed),
    ("output", EndReason::OutputClosed),
    ("both", EndReason::OutputClosed),
];

/// Only force ends it, at once.
fn stubborn(fake: &Arc<Fake>) -> ServerConfig {
    let policy = TerminationPolicy::immediate();
    fake.config("s", &["--stubborn"]).termination(policy)
}

fn is(kind: &CallErrorKind, reason: &EndReason) -> bool {
    match reason {
        EndReason::InputClosed => matches!(kind, CallErrorKind::InputClosed),
        _ => matches!(kind, CallErrorKind::OutputClosed),
    }
}

async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, work).await.expect("in time")
}

#[tokio::test]
async fn calls_fail_at_once_with_the_half_that_is_closed() {
    for streams in ALL {
        for (half, reason) in HALVES {
            let fake = Fake::over(*streams);
            let client = LifecycleClient::start(stubborn(&fake)).await.unwrap();
            let peer = client.peer().clone();
            let in_flight = tokio::spawn(async move { peer.call_tool(call(1_000_000)).await });
            while client.in_flight() == 0 {
                tokio::task::yield_now().await;
            }
            in_time(client.call_tool(close(half))).await.unwrap();
            let next = in_time(client.call_tool(call(0))).await.unwrap_err();
            assert!(is(next.kind(), &reason), "{streams:?}, {half}: {next}");
            let earlier = in_time(in_flight).await.unwrap().unwrap_err();
            assert!(
                is(earlier.kind(), &reason),
                "{streams:?}, {half}: {earlier}"
            );
            let later = in_time(client.call_tool(call(0))).await.unwrap_err();
            assert!(is(later.kind(), &reason), "{streams:?}, {half}: {later}");
            let report = in_time(client.ended()).await.unwrap();
            assert_eq!(report.reason, reason, "{streams:?}, {half}");
        }
    }
}

#[tokio::test]
async fn a_closed_standard_error_ends_nothing() {
    for streams in ALL {
        let fake = Fake::over(*streams);
        // It says one line, and closes it.
        let client = LifecycleClient::start(fake.config("s", &["--chatty", "1"])).await;
        let client = client.unwrap();
        while client.stderr_tail().is_empty() {
            tokio::task::yield_now().await;
        }
        for _ in 0..3 {
            in_time(client.call_tool(call(0))).await.unwrap();
        }
        assert!(client.is_ready());
        client.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn a_manager_starts_it_again() {
    for (half, _) in HALVES {
        let fake = Fake::new();
        let manager = ServerManager::new("m");
        manager.refresh([stubborn(&fake)]).await.unwrap();
        let first = manager.server("s").unwrap();
        in_time(first.call_tool(close(half))).await.unwrap();
        in_time(first.call_tool(call(0))).await.unwrap_err();
        let second = in_time(async {
            while fake.starts() < 2 {
                tokio::task::yield_now().await;
            }
            manager.ready("s", LIMIT).await
        });
        let answered = second.await.unwrap().call_tool(call(0)).await;
        answered.unwrap();
        let last = manager.list()[0].last_error.clone().unwrap();
        assert!(last.contains("closed its"), "{last}");
        assert_eq!(fake.starts(), 2);
        manager.shutdown(seconds(5)).await.unwrap();
    }
}

#[tokio::test]
async fn rmcps_own_loop_ends_it_too() {
    for streams in ALL {
        for (half, reason) in HALVES {
            let fake = Fake::over(*streams);
            let config = stubborn(&fake);
            let launched = fake.launch(config.spec(), &LaunchContext::new()).await;
            let transport = OwnedTransport::new("s", launched.unwrap());
            let transport = transport.policy(config.termination.clone());
            let outcome = transport.outcome();
            let service = Arc::new(().serve(transport).await.unwrap());
            in_time(service.call_tool(close(half))).await.unwrap();
            in_time(service.call_tool(call(0))).await.unwrap_err();
            let report = in_time(outcome).await.unwrap();
            assert_eq!(report.reason, reason, "{streams:?}, {half}");
        }
    }
}
