//! The conformance kit on the local launcher.

use std::sync::Arc;

use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_conformance::host::{self, HostCommand};
use mcp_lifecycle_conformance::{Conformance, FixtureCommand, run};
use mcp_lifecycle_core::ServerLauncher;

fn launcher() -> Arc<dyn ServerLauncher> {
    Arc::new(LocalLauncher::new())
}

fn fixture() -> FixtureCommand {
    FixtureCommand::local(env!("CARGO_BIN_EXE_mcp-fixture"))
}

/// The host that the kit kills; in any other run of the tests, nothing.
#[tokio::test]
async fn host() {
    host::run_if_asked(launcher(), &fixture()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conformance() {
    let kit = Conformance::new(launcher(), fixture()).host(HostCommand::this_test("host").unwrap());
    let matrix = run(&kit).await;
    println!("{matrix}");
    matrix.assert();
}
