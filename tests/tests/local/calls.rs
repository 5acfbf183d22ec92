//! Calls: timeouts, cancellation, progress, and servers that make it hard.

use std::time::Duration;

use mcp_lifecycle_core::client::{
    CallErrorKind, CallOptions, LifecycleClient, ProtocolPreference, TransportLimits,
};
use serde_json::json;

use crate::support::{self, test, text, tool};

fn within(millis: u64) -> CallOptions {
    CallOptions::default().timeout(Duration::from_millis(millis))
}

#[test]
fn both_eras_of_the_protocol() {
    test("eras", async |rig| {
        for era in ["legacy", "modern", "both"] {
            let client = rig.start(&["plain", "--era", era]).await;
            let answer = client.call_tool(tool("echo", json!({"text": era}))).await;
            assert_eq!(text(&answer.unwrap()), era);
            client.shutdown().await.unwrap();
        }
        for (preference, era) in [
            (ProtocolPreference::Legacy, "legacy"),
            (ProtocolPreference::Modern, "modern"),
        ] {
            let config = rig.config(&["plain", "--era", era]).protocol(preference);
            let client = LifecycleClient::start(config).await.unwrap();
            assert!(!client.list_all_tools().await.unwrap().is_empty());
            client.shutdown().await.unwrap();
        }
    });
}

#[test]
fn a_call_that_times_out_is_cancelled_at_the_server() {
    test("timeout", async |rig| {
        let client = rig.start(&["plain"]).await;
        let server = rig.accept("server").await;
        let call = client
            .call_tool_with(tool("block", json!({})), &within(50))
            .await;
        assert!(matches!(
            call.unwrap_err().kind(),
            CallErrorKind::Timeout(_)
        ));
        rig.event(&server, "cancelled").await;
        let next = client.call_tool(tool("echo", json!({"text": "on"}))).await;
        assert_eq!(text(&next.unwrap()), "on");
        assert_eq!(client.in_flight(), 0);
        client.shutdown().await.unwrap();
    });
}

#[test]
fn a_dropped_call_is_cancelled_at_the_server_after_it_was_made() {
    test("dropped calls", async |rig| {
        let client = rig.start(&["plain"]).await;
        let server = rig.accept("server").await;
        for _ in 0..50 {
            let call = client.call_tool(tool("block", json!({})));
            let _ = tokio::time::timeout(Duration::from_micros(200), call).await;
        }
        // An answer comes after everything that was sent before it.
        let next = client.call_tool(tool("echo", json!({"text": "on"}))).await;
        assert_eq!(text(&next.unwrap()), "on");
        client.shutdown().await.unwrap();
        let events = server.events();
        for blocking in events.iter().filter_map(|e| e.strip_prefix("blocking ")) {
            let cancelled = format!("cancelled {blocking}");
            assert!(events.contains(&cancelled), "{blocking} in {events:?}");
        }
    });
}

#[test]
fn progress_resets_the_timeout_up_to_the_total() {
    test("progress", async |rig| {
        let client = rig.start(&["plain"]).await;
        let server = rig.accept("server").await;
        let options = within(5000).reset_on_progress(support::LIMIT);
        let peer = client.peer().clone();
        let call = tokio::spawn(async move {
            let params = tool("progress", json!({"steps": 4}));
            peer.call_tool_with(params, &options).await
        });
        for step in 1..=4 {
            // Each wait is shorter than the timeout, all together are longer.
            tokio::time::sleep(Duration::from_millis(1500)).await;
            server.step();
            rig.event(&server, &format!("progress {step}")).await;
        }
        call.await.unwrap().unwrap();
        client.shutdown().await.unwrap();
    });
}

#[test]
fn a_server_that_does_not_read_fills_a_bounded_queue_and_times_out() {
    test("not reading", async |rig| {
        let limits = TransportLimits::default().max_queue(256 * 1024);
        let config = rig
            .config(&["never-reads-stdin", "--at", "call"])
            .limits(limits);
        let client = LifecycleClient::start(config).await.unwrap();
        let server = rig.accept("server").await;
        rig.event(&server, "deaf").await;
        let big = json!({"text": "x".repeat(400 * 1024)});
        let first = client
            .call_tool_with(tool("echo", big.clone()), &within(1000))
            .await;
        assert!(matches!(
            first.unwrap_err().kind(),
            CallErrorKind::Timeout(_)
        ));
        let second = client
            .call_tool_with(tool("echo", big), &within(1000))
            .await;
        let error = second.unwrap_err();
        assert!(
            matches!(error.kind(), CallErrorKind::NotReading { .. }),
            "{error}"
        );
        client.shutdown().await.unwrap();
    });
}

#[test]
fn eight_mebibytes_on_standard_error_do_not_stall_an_answer() {
    test("stderr flood", async |rig| {
        let client = rig.start(&["stderr-flood"]).await;
        let answer = client
            .call_tool(tool("echo", json!({"text": "through"})))
            .await;
        assert_eq!(text(&answer.unwrap()), "through");
        assert!(!client.stderr_tail().is_empty());
        client.shutdown().await.unwrap();
    });
}

#[test]
fn junk_on_standard_output_is_skipped_and_counted() {
    test("junk", async |rig| {
        let client = rig.start(&["junk-stdout"]).await;
        let answer = client.call_tool(tool("echo", json!({"text": "x"}))).await;
        assert_eq!(text(&answer.unwrap()), "x");
        assert!(client.skipped_lines().is_some());
        client.shutdown().await.unwrap();
    });
}

#[test]
fn an_answer_over_the_limit_fails_its_call_alone() {
    test("oversized", async |rig| {
        let limits = TransportLimits::default().max_message(1 << 20);
        let config = rig.config(&["plain"]).limits(limits);
        let client = LifecycleClient::start(config).await.unwrap();
        let big = client
            .call_tool(tool("blob", json!({"bytes": 2 << 20})))
            .await;
        let error = big.unwrap_err();
        assert!(
            matches!(
                error.kind(),
                CallErrorKind::TooLarge {
                    limit: 1_048_576,
                    ..
                }
            ),
            "{error}"
        );
        let small = client.call_tool(tool("blob", json!({"bytes": 1000}))).await;
        assert_eq!(text(&small.unwrap()).len(), 1000);
        client.shutdown().await.unwrap();
    });
}

#[test]
fn malformed_answers_fail_their_calls() {
    test("malformed", async |rig| {
        for shape in ["invalid-utf8", "invalid-json"] {
            let client = rig.start(&[shape]).await;
            let answer = client.call_tool(tool("echo", json!({"text": "x"}))).await;
            let error = answer.unwrap_err();
            assert!(
                matches!(error.kind(), CallErrorKind::Malformed(_)),
                "{shape}: {error}"
            );
            client.shutdown().await.unwrap();
        }
    });
}

#[test]
fn a_server_that_dies_mid_call_fails_it_with_its_last_words() {
    test("dies mid-call", async |rig| {
        let client = rig
            .start(&["dies-mid-call", "--stderr", "out of cheese"])
            .await;
        let answer = client.call_tool(tool("echo", json!({"text": "x"}))).await;
        let error = answer.unwrap_err();
        let CallErrorKind::ServerDied { stderr_tail, .. } = error.kind() else {
            panic!("not told that the server died")
        };
        assert!(
            stderr_tail
                .iter()
                .any(|line| line.contains("out of cheese")),
            "{stderr_tail:?}"
        );
        let again = client.call_tool(tool("echo", json!({"text": "x"}))).await;
        assert!(matches!(
            again.unwrap_err().kind(),
            CallErrorKind::ServerDied { .. }
        ));
        client.ended().await.unwrap();
    });
}

#[test]
fn many_calls_at_once_come_back_to_whoever_made_them() {
    test("many calls", async |rig| {
        let client = rig.start(&["plain"]).await;
        let calls: Vec<_> = (0..200)
            .map(|i| {
                let peer = client.peer().clone();
                tokio::spawn(async move {
                    let sent = format!("message {i}");
                    let answer = peer.call_tool(tool("echo", json!({"text": sent}))).await;
                    assert_eq!(text(&answer.unwrap()), sent);
                })
            })
            .collect();
        for call in calls {
            call.await.unwrap();
        }
        client.shutdown().await.unwrap();
    });
}

#[test]
fn draining_lets_calls_in_flight_complete() {
    test("drain", async |rig| {
        let client = rig.start(&["plain"]).await;
        let server = rig.accept("server").await;
        let peer = client.peer().clone();
        let call =
            tokio::spawn(
                async move { peer.call_tool(tool("progress", json!({"steps": 1}))).await },
            );
        while client.in_flight() == 0 {
            tokio::task::yield_now().await;
        }
        let policy = support::patient().drain(support::LIMIT);
        let end = client.shutdown_with(
            mcp_lifecycle_core::terminate::EndReason::ConfigChanged,
            policy,
        );
        let (end, ()) = tokio::join!(end, async {
            server.step();
        });
        call.await.unwrap().unwrap();
        assert!(support::is_graceful(&end.unwrap()));
    });
}
