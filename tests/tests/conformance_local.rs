//! The conformance kit on the local launcher, at each level of isolation.

use std::sync::{Arc, Mutex, PoisonError};

use mcp_launcher_local::{Isolation, LocalLauncher};
use mcp_lifecycle_conformance::host::{self, HostCommand};
use mcp_lifecycle_conformance::{Conformance, FixtureCommand, run};
use mcp_lifecycle_core::ServerLauncher;

fn launcher(isolation: Isolation) -> Arc<dyn ServerLauncher> {
    Arc::new(LocalLauncher::new().isolation(isolation))
}

fn fixture() -> FixtureCommand {
    FixtureCommand::local(env!("CARGO_BIN_EXE_mcp-fixture"))
}

fn conformance(isolation: Isolation, host: &str) {
    /// The census counts the whole process: tests take turns.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);

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

/// The hosts that the kit kills; in any other run of the tests, nothing.
#[tokio::test]
async fn host_with_a_guardian() {
    host::run_if_asked(launcher(Isolation::Guardian), &fixture()).await;
}

#[tokio::test]
async fn host_with_a_process_group() {
    host::run_if_asked(launcher(Isolation::ProcessGroup), &fixture()).await;
}
