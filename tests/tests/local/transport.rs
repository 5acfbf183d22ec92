//! A server under rmcp's own service loop: the transport owns it, and has the proof.

use mcp_lifecycle_conformance::census::Census;
use mcp_lifecycle_core::client::OwnedTransport;
use mcp_lifecycle_core::launch::{ExitStatus, LaunchContext};
use mcp_lifecycle_core::terminate::{EndReason, Phase, TerminationPolicy};
use rmcp::RoleClient;
use rmcp::service::{RunningService, ServiceExt};
use rmcp::transport::Transport;
use serde_json::json;
use tokio::runtime::Handle;

use crate::support::{LIMIT, Rig, deaf_to_eof, launcher, patient, short, test, text, tool};

async fn transport(rig: &Rig, args: &[&str], policy: TerminationPolicy) -> OwnedTransport {
    let spec = rig.fixture(args);
    let launched = launcher().launch(&spec, &LaunchContext::new()).await;
    OwnedTransport::new(args[0], launched.unwrap()).policy(policy)
}

async fn serve(transport: OwnedTransport) -> RunningService<RoleClient, ()> {
    ().serve(transport).await.unwrap()
}

#[test]
fn calls_work_and_a_cancelled_service_ends_its_server() {
    test("cancelled", async |rig| {
        // The server leaves at the end of its input; what it left behind is deaf, and not waited for.
        let short = short();
        let policy = patient().term_grace(short.term_grace);
        let policy = policy.straggler_grace(short.straggler_grace);
        let transport = transport(rig, &["setsid"], policy).await;
        let outcome = transport.outcome();
        let service = serve(transport).await;
        let echo = service
            .call_tool(tool("echo", json!({ "text": "hello" })))
            .await;
        assert_eq!(text(&echo.unwrap()), "hello");
        service.cancel().await.unwrap();
        let report = outcome.await.unwrap();
        assert_eq!(report.reason, EndReason::Shutdown);
        assert_eq!(report.exit, ExitStatus::Code(0), "{report}");
    });
}

#[test]
fn a_dropped_service_ends_a_stubborn_server_by_the_policy() {
    test("dropped service", async |rig| {
        let transport = transport(rig, &["ignore-eof-term"], short()).await;
        let outcome = transport.outcome();
        drop(serve(transport).await);
        let report = outcome.await.unwrap();
        assert_eq!(report.ended_in(), Some(Phase::ForceEnd), "{report}");
    });
}

#[test]
fn a_dropped_transport_kills_its_server_at_once() {
    test("dropped transport", async |rig| {
        let transport = transport(rig, &["ignore-eof-term"], short()).await;
        let outcome = transport.outcome();
        drop(transport);
        let report = outcome.await.unwrap();
        assert_eq!(report.reason, EndReason::OwnerDropped);
    });
}

/// Beside the server, a transport has a task that writes and a pipe's end to write to.
#[test]
fn a_transport_leaves_no_task_and_no_descriptor_in_a_runtime_that_lives_on() {
    test("nothing left", async |rig| {
        let tasks = || Handle::current().metrics().num_alive_tasks();
        let before = (Census::take().without_threads().allowing_less(), tasks());
        for _ in 0..3 {
            let gone = transport(rig, &["plain"], patient()).await;
            let outcome = gone.outcome();
            let service = serve(gone).await;
            service
                .call_tool(tool("exit", json!({})))
                .await
                .unwrap_err();
            outcome.await.unwrap();
            service.waiting().await.unwrap();
            let dropped = transport(rig, &["plain"], patient()).await;
            let outcome = dropped.outcome();
            drop(dropped);
            outcome.await.unwrap();
        }
        let descriptors = tokio::task::spawn_blocking(move || before.0.settle(LIMIT));
        descriptors.await.unwrap().unwrap();
        tokio::time::timeout(LIMIT, async {
            while tasks() > before.1 {
                tokio::task::yield_now().await;
            }
        })
        .await
        .expect("its tasks have ended");
    });
}

#[test]
fn a_close_that_is_dropped_ends_the_server_by_its_policy() {
    test("dropped close", async |rig| {
        let mut transport = transport(rig, &["ignore-eof"], deaf_to_eof()).await;
        let server = rig.accept("server").await;
        let outcome = transport.outcome();
        drop(transport.close());
        let report = outcome.await.unwrap();
        assert_eq!(report.ended_in(), Some(Phase::RequestEnd), "{report}");
        rig.event(&server, "sigterm").await;
    });
}

#[test]
fn a_transport_whose_runtime_has_gone_kills_its_server() {
    let rig = Rig::new("runtime gone");
    let runtime = crate::support::runtime();
    let service = runtime
        .block_on(async { serve(transport(&rig, &["ignore-eof-term"], short()).await).await });
    drop(runtime);
    drop(service);
    rig.finish();
}

#[test]
fn a_server_that_dies_closes_the_service_and_is_proven_gone() {
    test("died", async |rig| {
        let transport = transport(rig, &["helper"], short()).await;
        let outcome = transport.outcome();
        let service = serve(transport).await;
        let exit = service.call_tool(tool("exit", json!({ "code": 3 }))).await;
        exit.unwrap_err();
        let report = outcome.await.unwrap();
        assert_eq!(report.reason, EndReason::ServerExited);
        assert_eq!(report.exit, ExitStatus::Code(3), "{report}");
        service.waiting().await.unwrap();
    });
}
