//! rmcp's own client over `Contained`: whatever the server does and however its host ends, nothing
//! is left.

use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, Stdio};

use futures_util::future::join_all;
use mcp_lifecycle_conformance::Fixture;
use mcp_tree::{Contained, Ended};
use process_wrap::tokio::CommandWrap;
use rmcp::RoleClient;
use rmcp::model::CallToolRequestParams;
use rmcp::service::{RunningService, ServiceExt};
use rmcp::transport::TokioChildProcess;
use tokio::process::Command;

use crate::support::{LIMIT, Rig, runtime, test};

/// Servers that a client can start, and the roles of what they consist of.
const SERVING: &[(&[&str], &[&str])] = &[
    (&["plain"], &["server"]),
    (&["ignore-eof"], &["server"]),
    (&["ignore-eof-term"], &["server"]),
    (&["sh-wrapper"], &["wrapper", "server"]),
    (&["sh-wrapper", "--ignore-eof"], &["wrapper", "server"]),
    (&["helper"], &["server", "helper"]),
    (&["setsid"], &["server", "setsid"]),
    (&["double-fork"], &["server", "daemon"]),
    (&["wiped-env"], &["server", "daemon", "wiped-env"]),
    (&["burst", "--count", "9"], &["server", "burst-9"]),
    (
        &["colony", "--count", "8", "--total", "200"],
        &["server", "colony-0", "colony-7"],
    ),
    (&["junk-stdout"], &["server"]),
    (&["stderr-flood"], &["server"]),
    (&["stdout-flood"], &["server"]),
];

/// Servers that misbehave in a call.
const CALLED: &[(&[&str], &[&str])] = &[
    (&["dies-mid-call"], &["server"]),
    (&["holds-stdout"], &["server", "holder"]),
];

/// Servers that no client can start, or that stop reading.
const OTHERS: &[(&[&str], &[&str])] = &[
    (&["leader-exits-first"], &["server", "helper"]),
    (&["never-answers"], &["server"]),
    (&["never-reads-stdin"], &["server"]),
    (&["sigstop"], &["server"]),
    (&["crash-loop", "--stderr", "cannot bind"], &["server"]),
    (&["wrong-version"], &["server"]),
    (
        &["exits-during-handshake", "--stderr", "no licence"],
        &["server"],
    ),
    (&["handshake-then-exit"], &["server"]),
];

/// All rows of the survivor matrix.
fn all() -> impl Iterator<Item = &'static (&'static [&'static str], &'static [&'static str])> {
    SERVING.iter().chain(CALLED).chain(OTHERS)
}

#[test]
fn the_rows_are_those_of_the_matrix() {
    assert_eq!(all().count(), Fixture::all().len());
}

fn transport(
    address: String,
    args: &[&str],
) -> (
    TokioChildProcess,
    impl Future<Output = std::io::Result<Ended>> + use<>,
) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcp-fixture"));
    command.args(args).args(["--alive".to_owned(), address]);
    let contained = Contained::new();
    let outcome = contained.outcome();
    let mut command = CommandWrap::from(command);
    command.wrap(contained);
    let transport = TokioChildProcess::builder(command).stderr(Stdio::null());
    (transport.spawn().unwrap().0, outcome)
}

async fn serve(transport: TokioChildProcess) -> RunningService<RoleClient, ()> {
    ().serve(transport).await.unwrap()
}

/// Serves each row, waits until all of it runs, and lets `end` end it.
async fn each(rig: &Rig, end: impl AsyncFn(RunningService<RoleClient, ()>)) {
    let end = &end;
    let serving = || SERVING.iter().chain(CALLED);
    let rows = serving().map(async |(args, _)| {
        let (transport, outcome) = transport(rig.alive.address(), args);
        (args, serve(transport).await, outcome)
    });
    let rows = join_all(rows).await;
    for (_, service, _) in &rows[SERVING.len()..] {
        let peer = service.peer().clone();
        // Never answered.
        tokio::spawn(async move { peer.call_tool(CallToolRequestParams::new("echo")).await });
    }
    for role in serving().flat_map(|(_, roles)| *roles) {
        rig.accept(role).await;
    }
    let rows = rows.into_iter().map(async |(args, service, outcome)| {
        end(service).await;
        let report = outcome.await;
        let report = report.unwrap_or_else(|error| panic!("{args:?}: {error}"));
        assert!(!report.gone.evidence.is_empty(), "{args:?}: {report:?}");
    });
    join_all(rows).await;
}

#[test]
fn a_client_of_rmcp_that_is_closed_leaves_nothing() {
    test("rmcp, closed", async |rig| {
        each(rig, async |service| drop(service.cancel().await.unwrap())).await;
    });
}

#[test]
fn a_client_of_rmcp_that_is_dropped_leaves_nothing() {
    test("rmcp, dropped", async |rig| {
        each(rig, async |service| drop(service)).await;
    });
}

#[test]
fn a_transport_of_rmcp_that_is_dropped_leaves_nothing() {
    test("rmcp, dropped transports", async |rig| {
        for (args, roles) in all() {
            let (transport, outcome) = transport(rig.alive.address(), args);
            rig.accept(roles[0]).await;
            drop(transport);
            let report = outcome.await;
            report.unwrap_or_else(|error| panic!("{args:?}: {error}"));
        }
    });
}

/// rmcp spawns a task to kill its child, which panics outside a runtime.
#[test]
fn a_transport_of_rmcp_that_is_dropped_outside_a_runtime_leaves_nothing() {
    let rig = Rig::new("rmcp, without a runtime");
    let runtime = runtime();
    let transports = runtime.block_on(async {
        let rows = all().map(async |(args, roles)| {
            let (transport, _) = transport(rig.alive.address(), args);
            rig.accept(roles[0]).await;
            transport
        });
        join_all(rows).await
    });
    drop(runtime);
    for transport in transports {
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(transport)));
        assert!(dropped.is_err(), "rmcp has learned it: simplify this test");
    }
    rig.finish();
}

#[test]
fn clients_of_rmcp_whose_runtime_is_dropped_leave_nothing() {
    let rig = Rig::new("rmcp, runtime dropped");
    let runtime = runtime();
    let services = runtime.block_on(async {
        let rows = SERVING.iter().map(async |(args, _)| {
            let (transport, _) = transport(rig.alive.address(), args);
            serve(transport).await
        });
        join_all(rows).await
    });
    drop(runtime);
    drop(services);
    rig.finish();
}

const ALIVE: &str = "MCP_TEST_RMCP_HOST_ALIVE";

#[test]
#[ignore = "the role of the host in the tests below"]
fn role() {
    let Ok(alive) = std::env::var(ALIVE) else {
        return;
    };
    let _entered = runtime();
    let _entered = _entered.enter();
    let rows = all();
    let transports: Vec<_> = rows
        .map(|(args, _)| transport(alive.clone(), args))
        .collect();
    let _ = std::io::stdin().read(&mut [0]);
    drop(transports);
}

fn host(rig: &Rig) -> Child {
    std::process::Command::new(std::env::current_exe().unwrap())
        .args(["contained::role", "--exact", "--ignored", "--nocapture"])
        .env(ALIVE, rig.alive.address())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_host_of_rmcp_that_is_killed_leaves_nothing() {
    let rig = Rig::new("rmcp, killed");
    let mut host = host(&rig);
    rig.alive.block_on(async {
        for (_, roles) in all() {
            for role in *roles {
                rig.accept(role).await;
            }
        }
    });
    host.kill().unwrap();
    host.wait().unwrap();
    rig.finish();
}

/// At each instant of its starts: when so many of its servers have said hello.
#[test]
fn a_host_of_rmcp_that_is_killed_during_its_starts_leaves_nothing() {
    for servers in 0..SERVING.len() / 2 {
        let rig = Rig::new("rmcp, killed during starts");
        let mut host = host(&rig);
        rig.alive.block_on(async {
            for (_, roles) in &SERVING[..servers] {
                rig.accept(roles[0]).await;
            }
        });
        host.kill().unwrap();
        host.wait().unwrap();
        let dead = rig.alive.expect_all_dead(LIMIT);
        rig.alive
            .block_on(dead)
            .unwrap_or_else(|error| panic!("after {servers}: {error}"));
        rig.finish();
    }
}
