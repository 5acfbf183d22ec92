//! The regression of the seed: a server starts, a blocking call is in flight,
//! the client shuts down, and the process is gone. For every way to make it hard.

use mcp_lifecycle_core::client::CallErrorKind;
use mcp_lifecycle_core::launch::ExitStatus;
use mcp_lifecycle_core::terminate::{Phase, TerminationPolicy, TerminationReport};
use serde_json::json;

use crate::support::{self, deaf_to_eof, is_graceful, patient, short, test};

/// Starts `args`, blocks in a call, shuts down by this policy, and returns the report
/// once every process of it is proven dead.
async fn shut_down_in_flight(
    rig: &support::Rig,
    args: &[&str],
    policy: TerminationPolicy,
) -> TerminationReport {
    let client = rig.start_with(args, policy).await;
    let server = rig.accept("server").await;
    let call = rig.block(&client, &server).await;
    let report = client.shutdown().await.unwrap();
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(error.kind(), CallErrorKind::Ending(_)), "{error}");
    server.wait_dead(support::LIMIT).await.unwrap();
    assert!(
        server.events().iter().any(|e| e.starts_with("cancelled")),
        "{:?}",
        server.events()
    );
    TerminationReport::clone(&report)
}

#[test]
fn a_polite_server_leaves_at_end_of_file_and_is_not_signalled() {
    test("plain", async |rig| {
        let report = shut_down_in_flight(rig, &["plain"], patient()).await;
        assert!(is_graceful(&report), "{report}");
        assert_eq!(report.exit, ExitStatus::Code(0));
    });
}

#[test]
fn a_shell_wrapper_does_not_hide_the_server() {
    test("sh-wrapper", async |rig| {
        let report = shut_down_in_flight(rig, &["sh-wrapper"], patient()).await;
        assert!(is_graceful(&report), "{report}");
    });
}

#[test]
fn a_shell_wrapper_around_a_deaf_server() {
    test("sh-wrapper deaf", async |rig| {
        let report = shut_down_in_flight(
            rig,
            &["sh-wrapper", "--ignore-eof", "--ignore-term"],
            short(),
        )
        .await;
        assert_eq!(report.ended_in(), Some(Phase::ForceEnd), "{report}");
        assert!(report.gone.swept_count >= 1, "{report}");
    });
}

#[test]
fn a_server_that_ignores_end_of_file_gets_sigterm() {
    test("ignore-eof", async |rig| {
        let report = shut_down_in_flight(rig, &["ignore-eof"], deaf_to_eof()).await;
        assert_eq!(report.ended_in(), Some(Phase::RequestEnd), "{report}");
    });
}

#[test]
fn a_server_that_ignores_sigterm_as_well_gets_sigkill() {
    test("ignore-eof-term", async |rig| {
        let report = shut_down_in_flight(rig, &["ignore-eof-term"], short()).await;
        assert_eq!(report.ended_in(), Some(Phase::ForceEnd), "{report}");
        assert_eq!(report.exit, ExitStatus::Signal(9));
    });
}

#[test]
fn a_helper_that_outlives_a_graceful_exit_is_swept() {
    test("helper", async |rig| {
        let policy = patient().straggler_grace(short().straggler_grace);
        let report = shut_down_in_flight(rig, &["helper"], policy).await;
        assert_eq!(report.exit, ExitStatus::Code(0), "{report}");
        assert_eq!(report.gone.swept_count, 1, "{report}");
    });
}

#[test]
fn a_stopped_server_is_woken_to_end() {
    test("sigstop", async |rig| {
        let client = rig.start_with(&["sigstop"], deaf_to_eof()).await;
        let server = rig.accept("server").await;
        rig.event(&server, "stopping").await;
        let report = client.shutdown().await.unwrap();
        assert_eq!(report.ended_in(), Some(Phase::RequestEnd), "{report}");
    });
}

#[test]
fn a_server_that_stopped_reading_and_has_a_full_pipe_is_ended_in_time() {
    test("never-reads-stdin", async |rig| {
        let client = rig.start(&["never-reads-stdin", "--at", "call"]).await;
        let server = rig.accept("server").await;
        rig.event(&server, "deaf").await;
        let peer = client.peer().clone();
        let big = "x".repeat(1 << 20);
        let call = tokio::spawn(async move {
            let arguments = json!({ "text": big });
            peer.call_tool(support::tool("echo", arguments)).await
        });
        while client.in_flight() == 0 {
            tokio::task::yield_now().await;
        }
        client.shutdown().await.unwrap();
        call.await.unwrap().unwrap_err();
    });
}

#[test]
fn unread_output_does_not_keep_a_server_from_leaving() {
    test("stdout-flood", async |rig| {
        let client = rig.start(&["stdout-flood"]).await;
        client.shutdown().await.unwrap();
    });
}

#[test]
fn a_wrapper_that_dies_of_sigterm_does_not_take_the_grace_from_the_server_behind_it() {
    test("grace behind a wrapper", async |rig| {
        let client = rig
            .start_with(&["sh-wrapper", "--ignore-eof"], deaf_to_eof())
            .await;
        let server = rig.accept("server").await;
        let report = client.shutdown().await.unwrap();
        assert_eq!(report.ended_in(), Some(Phase::RequestEnd), "{report}");
        rig.event(&server, "sigterm").await;
    });
}
