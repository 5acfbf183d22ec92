//! Endings: each rung of the ladder, proven by the engine and the observer.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use mcp_lifecycle_core::launch::{ExitStatus, LaunchContext, ServerLauncher};
use mcp_lifecycle_core::terminate::{EndReason, Phase, TerminationPolicy};

use crate::support::{Host, LIMIT, Rig, in_time, is_host, own, without_haste};

/// How long the two graces are together, where nothing else is said.
const GRACES: Duration = Duration::from_secs(1);

fn policy() -> TerminationPolicy {
    without_haste().eof_grace(GRACES / 2).term_grace(GRACES / 2)
}

#[tokio::test]
async fn each_server_ends_on_the_rung_it_needs() {
    let Some(rig) = Rig::new("rungs") else {
        return;
    };
    let cases = [
        ("plain", None, ExitStatus::Code(0)),
        (
            "ignore-eof",
            Some(Phase::RequestEnd),
            ExitStatus::Signal(15),
        ),
        (
            "ignore-eof-term",
            Some(Phase::ForceEnd),
            ExitStatus::Signal(9),
        ),
        ("never-reads-stdin", None, ExitStatus::Signal(9)),
    ];
    for (fixture, rung, exit) in cases {
        let server = own(rig.launch(&[fixture]).await);
        // No verdict depends on a grace: long where the fixture obeys.
        let policy = match rung {
            Some(Phase::RequestEnd) => policy().term_grace(LIMIT),
            None if fixture == "plain" => policy().eof_grace(LIMIT),
            _ => policy(),
        };
        let report = server.end(&policy).await.unwrap();
        let alive = rig.alive.alive_at_this_moment(LIMIT).await.unwrap();
        assert!(alive.is_empty(), "{fixture}: {alive:?}");
        let left = rig.containers();
        assert!(left.is_empty(), "{fixture}: {left:?}");
        if let Some(rung) = rung {
            assert_eq!(report.ended_in(), Some(rung), "{fixture}: {report}");
        }
        if fixture != "never-reads-stdin" {
            assert_eq!(report.exit, exit, "{fixture}: {report}");
        }
    }
}

/// A regression test for moby issue 41827: output that is not read blocks the
/// daemon's stop, kill, inspect and rm of the container.
#[tokio::test]
async fn output_that_nobody_reads_does_not_wedge_the_end() {
    let Some(rig) = Rig::new("wedge") else {
        return;
    };
    use tokio::io::AsyncWriteExt;
    let mut server = own(rig
        .launch(&["stdout-flood", "--at", "handshake", "--ignore-eof"])
        .await);
    let line = br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"0"}}}"#;
    server.stdin.write_all(line).await.unwrap();
    server
        .stdin
        .write_all(b"\n{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n")
        .await
        .unwrap();
    // Time for the stream to fill up to the daemon.
    crate::support::pause(Duration::from_millis(700)).await;
    // A daemon that is wedged does not confirm in time.
    server.end(&policy()).await.unwrap();
    rig.assert_clean().await;
    drop((server.stdin, server.stdout));
}

#[tokio::test]
async fn a_container_that_somebody_else_removed_is_gone() {
    let Some(rig) = Rig::new("behind-our-back") else {
        return;
    };
    let server = own(rig.launch(&["ignore-eof-term"]).await);
    rig.engine.docker(&["rm", "-f", &rig.containers()[0]]);
    let exit = in_time("it exits", server.handle.exited()).await;
    assert_eq!(exit, ExitStatus::Signal(9));
    // No grace is waited for: this one is as long as the test's limit.
    server.end(&policy().eof_grace(LIMIT)).await.unwrap();
    rig.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_ends_share_one_report() {
    let Some(rig) = Rig::new("concurrent") else {
        return;
    };
    let server = own(rig.launch(&["ignore-eof-term"]).await);
    let id = rig.containers().remove(0);
    let policy = policy();
    let ends = join_all((0..8).map(|_| server.handle.terminate(&policy, EndReason::Shutdown)));
    let engine = rig.engine.clone();
    let removal = tokio::task::spawn_blocking(move || {
        let _ = engine.command(&["stop", "-t", "0", &id]).output();
        let _ = engine.command(&["rm", "-f", &id]).output();
    });
    let (reports, removal) = in_time("all end", async { tokio::join!(ends, removal) }).await;
    removal.unwrap();
    let first = reports[0].as_ref().unwrap();
    assert!(reports.iter().all(|r| r.as_ref().unwrap() == first));
    rig.assert_clean().await;
}

#[test]
fn a_server_dropped_outside_and_after_its_runtime_is_removed() {
    let Some(rig) = Rig::new("no-runtime") else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let [one, two] = [(); 2].map(|()| runtime.block_on(rig.launch(&["ignore-eof-term"])));
    drop(one);
    let two = runtime.block_on(async { own(two) });
    drop(runtime);
    drop(two.handle);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(rig.assert_clean());
}

/// The host leaves `main` right after the drop: no thread gets to do anything.
#[tokio::test]
async fn a_host_that_drops_and_exits_leaves_nothing() {
    let Some(rig) = Rig::new("drop-exit") else {
        return;
    };
    if let Some(name) = is_host() {
        let spec = rig.options().apply(
            mcp_lifecycle_core::ServerSpec::builder(name, "/mcp-fixture").arg("ignore-eof-term"),
        );
        let server = rig
            .launcher()
            .launch(&spec.build().unwrap(), &LaunchContext::new())
            .await
            .unwrap();
        drop(server);
        std::process::exit(0);
    }
    for _ in 0..3 {
        let mut host = Host::start(
            "ends::a_host_that_drops_and_exits_leaves_nothing",
            &rig.server,
        );
        host.wait();
    }
    rig.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_stubborn_servers_end_in_the_time_of_one() {
    let Some(rig) = Rig::new("twenty") else {
        return;
    };
    let launcher = rig.launcher();
    let spec = rig.spec(&["ignore-eof-term"]);
    let context = LaunchContext::new();
    let launches = join_all((0..20).map(|_| launcher.launch(&spec, &context))).await;
    let servers: Vec<_> = launches.into_iter().map(|s| own(s.unwrap())).collect();
    let policy = policy().eof_grace(GRACES).term_grace(GRACES);
    let begun = Instant::now();
    let ends = servers
        .iter()
        .map(|s| s.handle.terminate(&policy, EndReason::Shutdown));
    for report in in_time("all end", join_all(ends)).await {
        report.unwrap();
    }
    let took = begun.elapsed();
    println!("20 stubborn containers ended in {took:.2?} (graces: twice {GRACES:?})");
    // One after another the graces alone would take longer, however busy the
    // machine is; the exact bound is the benchmark's.
    assert!(took < 20 * 2 * GRACES, "{took:?}");
    rig.assert_clean().await;
}
