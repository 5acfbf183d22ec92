//! Ownership is outside the transport: dropped, cancelled, shared, cloned.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use mcp_launcher_local::{Isolation, LocalLauncher};
use mcp_lifecycle_core::client::{CallErrorKind, LifecycleClient};
use mcp_lifecycle_core::launch::{LaunchContext, ServerLauncher};
use mcp_lifecycle_core::terminate::{EndReason, TerminationReport};
use serde_json::json;

use crate::support::{self, Rig, runtime, test, tool};

#[test]
fn a_client_dropped_without_shutdown_leaves_nothing() {
    test("drop", async |rig| {
        let client = rig.start(&["ignore-eof-term"]).await;
        let server = rig.accept("server").await;
        drop(client);
        server.wait_dead(support::LIMIT).await.unwrap();
    });
}

#[test]
fn a_client_dropped_outside_any_runtime_leaves_nothing() {
    let rig = Rig::new("drop outside");
    let runtime = runtime();
    let client = runtime.block_on(rig.start(&["ignore-eof-term"]));
    drop(runtime);
    drop(client);
    rig.finish();
}

#[test]
fn a_runtime_that_goes_away_takes_its_servers_with_it() {
    let rig = Rig::new("runtime dropped first");
    let runtime = runtime();
    let client = runtime.block_on(rig.start(&["ignore-eof-term"]));
    drop(runtime);
    rig.alive
        .block_on(rig.alive.expect_all_dead(support::LIMIT))
        .unwrap();
    drop(client);
    rig.finish();
}

#[test]
fn a_client_of_a_runtime_that_has_gone_shuts_down_on_another() {
    let rig = Rig::new("other runtime");
    let first = runtime();
    let client = first.block_on(rig.start(&["ignore-eof-term"]));
    drop(first);
    let second = runtime();
    second.block_on(client.shutdown()).unwrap();
    drop(client);
    drop(second);
    rig.finish();
}

#[test]
fn a_panic_on_a_current_thread_runtime_leaves_nothing() {
    let rig = Rig::new("panic");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let start = LifecycleClient::start(rig.config(&["ignore-eof-term"]));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        runtime.block_on(async {
            let _client = start.await.unwrap();
            panic!("on purpose");
        })
    }));
    assert!(panicked.is_err());
    drop(runtime);
    rig.finish();
}

#[test]
fn who_is_left_is_looked_for_beside_the_callers_task() {
    test("survivors", async |rig| {
        for isolation in [Isolation::Guardian, Isolation::ProcessGroup] {
            let launcher = LocalLauncher::builder().isolation(isolation).build();
            let spec = rig.fixture(&["ignore-eof-term"]);
            let server = launcher.launch(&spec, &LaunchContext::new()).await.unwrap();
            let process = rig.accept("server").await;
            let mut waited = false;
            // The other thread may be done before it is asked.
            for _ in 0..100 {
                let mut look = server.terminator().survivors();
                waited |= futures_util::poll!(&mut look).is_pending();
                if !waited {
                    continue;
                }
                assert!(!look.await.unwrap().is_empty(), "{isolation:?}");
                break;
            }
            assert!(waited, "{isolation:?}: on this thread");
            drop(server);
            process.wait_dead(support::LIMIT).await.unwrap();
        }
    });
}

/// Polls a future `polls` times, then drops it where it stands.
async fn poll_at_most<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let mut future = Box::pin(future);
    let mut left = polls;
    std::future::poll_fn(move |cx: &mut Context<'_>| {
        let poll = Pin::as_mut(&mut future).poll(cx).map(Some);
        left -= 1;
        if poll.is_pending() && left == 0 {
            return Poll::Ready(None);
        }
        poll
    })
    .await
}

#[test]
fn a_start_dropped_at_any_await_leaves_nothing() {
    test("start dropped", async |rig| {
        // How many polls a start takes depends on what other threads have done
        // meanwhile, so that several passes see more of its awaits.
        for _pass in 0..5 {
            for polls in 1.. {
                let start = LifecycleClient::start(rig.config(&["helper", "--ignore-term"]));
                if let Some(started) = poll_at_most(start, polls).await {
                    started.unwrap().shutdown().await.unwrap();
                    assert!(polls > 1, "there is an await in a start");
                    break;
                }
            }
        }
    });
}

#[test]
fn ten_shutdowns_share_one_report() {
    test("shared shutdown", async |rig| {
        let client = Arc::new(rig.start(&["ignore-eof"]).await);
        let calls: Vec<_> = (0..10)
            .map(|_| {
                let client = Arc::clone(&client);
                tokio::spawn(async move { client.shutdown().await.unwrap() })
            })
            .collect();
        let mut reports: Vec<Arc<TerminationReport>> = Vec::new();
        for call in calls {
            reports.push(call.await.unwrap());
        }
        reports.push(client.shutdown().await.unwrap());
        assert!(reports.iter().all(|r| Arc::ptr_eq(r, &reports[0])));
    });
}

#[test]
fn a_cancelled_shutdown_goes_on() {
    test("cancelled shutdown", async |rig| {
        let client = rig.start(&["ignore-eof-term"]).await;
        let server = rig.accept("server").await;
        assert!(poll_at_most(client.shutdown(), 1).await.is_none());
        server.wait_dead(support::LIMIT).await.unwrap();
        let report = client.shutdown().await.unwrap();
        assert_eq!(report.reason, EndReason::Shutdown);
    });
}

#[test]
fn clones_in_a_detached_task_keep_nothing_alive() {
    test("detached clones", async |rig| {
        let client = rig.start(&["plain"]).await;
        let server = rig.accept("server").await;
        let peer = client.peer().clone();
        let (tell, told) = tokio::sync::oneshot::channel::<()>();
        let detached = tokio::spawn(async move {
            let _ = told.await;
            peer.call_tool(tool("echo", json!({"text": "late"}))).await
        });
        client.shutdown().await.unwrap();
        server.wait_dead(support::LIMIT).await.unwrap();
        drop(tell);
        let error = detached.await.unwrap().unwrap_err();
        assert!(matches!(error.kind(), CallErrorKind::Ending(_)), "{error}");
    });
}

#[test]
fn a_server_that_dies_by_itself_is_swept_without_anybody_asking() {
    test("died by itself", async |rig| {
        let client: LifecycleClient = rig.start(&["holds-stdout"]).await;
        let server = rig.accept("server").await;
        let call = client.call_tool(tool("echo", json!({"text": "x"}))).await;
        let error = call.unwrap_err();
        assert!(
            matches!(error.kind(), CallErrorKind::ServerDied { .. }),
            "{error}"
        );
        server.wait_dead(support::LIMIT).await.unwrap();
        let report = client.ended().await.unwrap();
        assert_eq!(report.reason, EndReason::ServerExited);
        assert_eq!(report.gone.swept_count, 1, "{report}");
    });
}
