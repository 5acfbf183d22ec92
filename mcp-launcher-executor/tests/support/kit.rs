//! The conformance kit with an executor.

use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use mcp_launcher_executor::{ExecServerConfig, ExecutorLauncher};
use mcp_lifecycle_conformance::host::{self, HostCommand};
use mcp_lifecycle_conformance::{Conformance, Fixture, FixtureCommand, run};

use crate::support::{Peer, launcher};

/// Tells a host where its executor is.
const EXECUTOR: &str = "MCP_TEST_EXECUTOR";

/// How often a host is killed at a random instant: each round takes a lease.
const ROUNDS: u32 = 3;

/// The rows are done in parts, each of which fits into the time that a runner
/// gives to a test.
pub(crate) const PARTS: usize = 4;

/// What the kit needs of a pair: how to reach the peer, how to start hosts
/// that do, and what lives as long as the test.
pub(crate) struct Pair {
    pub(crate) config: ExecServerConfig,
    pub(crate) host: HostCommand,
    pub(crate) peer: Option<Peer>,
}

/// Runs the kit on a pair, as far as `scope` says.
pub(crate) fn conformance(
    pair: impl AsyncFnOnce() -> Pair,
    scope: impl FnOnce(Conformance) -> Conformance,
) {
    /// The census counts the whole process: tests take turns.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let matrix = runtime.block_on(async {
        let Pair { config, host, peer } = pair().await;
        let launcher: ExecutorLauncher = launcher(config).await;
        let mut kit = Conformance::new(Arc::new(launcher), fixture()).host(host);
        if env::var_os("MCP_CONFORMANCE_ROUNDS").is_none() {
            kit = kit.rounds(ROUNDS);
        }
        let matrix = run(&scope(kit)).await;
        drop(peer);
        matrix
    });
    println!("{matrix}");
    matrix.assert();
}

/// A part of the rows; the first one has the experiments as well.
pub(crate) fn part(part: usize) -> impl Fn(Conformance) -> Conformance {
    move |kit| {
        let fixtures = Fixture::all().iter().skip(part).step_by(PARTS);
        let kit = kit.fixtures(fixtures.map(Fixture::name));
        if part > 0 {
            kit.without_experiments()
        } else {
            kit
        }
    }
}

/// A test for each part.
macro_rules! parts {
    ($pair:ident: $($name:ident $part:expr,)*) => {$(
        #[test]
        fn $name() {
            $pair($part);
        }
    )*};
}
pub(crate) use parts;

/// This test binary once more, to run the test `name` with an executor at `place`.
pub(crate) fn host(name: &'static str, place: &str) -> HostCommand {
    let (program, place) = (env::current_exe().unwrap(), place.to_owned());
    HostCommand::new(move || {
        let mut command = Command::new(&program);
        command.args(["--exact", name, "--nocapture", "--include-ignored"]);
        command.env(EXECUTOR, &place);
        command
    })
}

/// In a host of the kit: launches what it asks for, and never returns.
pub(crate) async fn run_if_asked(config: impl FnOnce(String) -> ExecServerConfig) {
    if let Ok(place) = env::var(EXECUTOR) {
        let launcher = launcher(config(place)).await;
        host::run_if_asked(Arc::new(launcher), &fixture()).await;
    }
}

/// The kit's fixture, which cargo puts beside the tests of the workspace.
fn fixture() -> FixtureCommand {
    let tests = env::current_exe().unwrap();
    let fixture: PathBuf = tests.ancestors().nth(2).unwrap().join("mcp-fixture");
    assert!(
        fixture.exists(),
        "{} is missing: run `cargo build -p mcp-lifecycle-conformance` first",
        fixture.display()
    );
    FixtureCommand::local(fixture)
}
