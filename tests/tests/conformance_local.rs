//! The conformance kit on the local launcher, at each level of isolation.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcp_launcher_local::{Isolation, LocalLauncher};
use mcp_lifecycle_conformance::copies::{self, Copies};
use mcp_lifecycle_conformance::host::{self, HostCommand};
use mcp_lifecycle_conformance::{Conformance, FixtureCommand, run};
use mcp_lifecycle_core::launch::ServerLauncher;

const FIXTURE: &str = env!("CARGO_BIN_EXE_mcp-fixture");

fn launcher(isolation: Isolation) -> Arc<dyn ServerLauncher> {
    Arc::new(LocalLauncher::new().isolation(isolation))
}

fn fixture() -> FixtureCommand {
    FixtureCommand::local(copies::fixture(FIXTURE))
}

/// The census counts the whole process: tests take turns.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn conformance(isolation: Isolation, host: &str) {
    let _turn = turn();
    let host = HostCommand::this_test(host).unwrap();
    let kit = Conformance::new(launcher(isolation), fixture()).host(host);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let matrix = runtime.block_on(run(&kit));
    println!("{matrix}");
    matrix.assert();
}

#[test]
fn with_a_guardian() {
    conformance(Isolation::Guardian, "host_with_a_guardian");
}

#[test]
fn with_a_process_group() {
    conformance(Isolation::ProcessGroup, "host_with_a_process_group");
}

/// Both once more as a user without privileges, to whom no cgroup was delegated.
#[test]
fn as_nobody() {
    const NOBODY: u32 = 65534;
    if !nix::unistd::geteuid().is_root() {
        println!("the other tests are this one: nobody here is root");
        return;
    }
    let _turn = turn();
    let directory = tempfile::tempdir().unwrap();
    chown(directory.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    let copies = Copies::make(FIXTURE.as_ref()).unwrap();
    let output = copies
        .command()
        .args(["--exact", "with_a_guardian", "with_a_process_group"])
        .arg("--nocapture")
        .env("MCP_LIFECYCLE_STATE_DIR", directory.path())
        .uid(NOBODY)
        .gid(NOBODY)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    println!("{stdout}");
    // A name that does not exist is no test, and passes.
    let passed = output.status.success() && stdout.contains("2 passed");
    assert!(passed, "as nobody: {}", output.status);
}

/// The hosts that the kit kills.
#[tokio::test]
#[ignore = "the role of a host in the tests above"]
async fn host_with_a_guardian() {
    host::run_if_asked(launcher(Isolation::Guardian), &fixture()).await;
}

#[tokio::test]
#[ignore = "the role of a host in the tests above"]
async fn host_with_a_process_group() {
    host::run_if_asked(launcher(Isolation::ProcessGroup), &fixture()).await;
}
