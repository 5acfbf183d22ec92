//! The conformance kit on the Docker launcher, and on the tracker of wrapped
//! containers around the local one.

#[path = "docker/support/mod.rs"]
#[expect(
    dead_code,
    unused_imports,
    reason = "the other tests with an engine use the rest"
)]
mod support;

use std::path::Path;
use std::sync::Arc;

use mcp_launcher_docker::{
    ContainerOptions, ContainerTracker, DockerLauncher, Endpoint, Init, ProxyMode,
};
use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_conformance::host::{self, HostCommand};
use mcp_lifecycle_conformance::{Conformance, Fixture, FixtureCommand, Way, run};
use mcp_lifecycle_core::launch::{ServerLauncher, ServerSpec};

use support::{Engine, image};

/// The fixture in a container that sees nothing but the observer's socket.
fn fixture() -> FixtureCommand {
    FixtureCommand::new(|args: Vec<String>| {
        let mut options = ContainerOptions::new("mcp-fixture:test");
        options.init_grace_ms = 2000;
        options.network = Some("none".to_owned());
        let socket = args.iter().find_map(|arg| arg.strip_prefix("unix:"));
        if let Some(directory) = socket.and_then(|socket| socket.strip_suffix("/s")) {
            let mount = serde_json::json!({
                "type": "bind", "source": directory, "target": directory, "writable": true,
            });
            options.mounts.extend(serde_json::from_value(mount));
        }
        let spec = ServerSpec::builder("fixture", "/mcp-fixture").args(args);
        options.apply(spec).build()
    })
}

/// The census counts the whole process: tests take turns.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

fn launcher(engine: &Engine, leases: &Path, init: Init) -> Arc<dyn ServerLauncher> {
    let launcher = DockerLauncher::builder()
        .endpoint(Endpoint::from_url(&engine.host).unwrap())
        .lease_directory(leases)
        .init(init);
    Arc::new(launcher.build().unwrap())
}

async fn on_containers(init: Init, kit: impl FnOnce(Conformance) -> Conformance) {
    let _turn = TURN.lock().await;
    let Some(engine) = Engine::of_environment() else {
        return;
    };
    image(&engine);
    let leases = tempfile::tempdir().unwrap();
    let launcher = launcher(&engine, leases.path(), init);
    let matrix = run(&kit(Conformance::new(launcher, fixture()))).await;
    println!("{matrix}");
    matrix.assert();
}

/// All ways to end but the dropped launch, for every second fixture: in parts
/// that fit into the time that a runner gives to a test.
fn half(kit: Conformance, skip: usize) -> Conformance {
    let names = Fixture::all().iter().skip(skip).step_by(2);
    let ways = Way::ALL.iter().copied();
    kit.fixtures(names.map(|fixture| fixture.name()))
        .ways(ways.filter(|&way| way != Way::Cancelled))
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_end() {
    on_containers(Init::Engine, |kit| half(kit, 0)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_containers_end() {
    on_containers(Init::Engine, |kit| half(kit, 1).without_experiments()).await;
}

/// A launch that is dropped is undone by removing the container, whatever is
/// in it; and it takes dozens of containers to try every await point. So: one
/// fixture that leaves, and one that does not, with output that nobody takes.
async fn dropped_launches(fixture: &str) {
    let kit = |kit: Conformance| kit.fixtures([fixture]).ways([Way::Cancelled]);
    on_containers(Init::Engine, |all| kit(all).without_experiments()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_launch_of_a_polite_server() {
    dropped_launches("plain").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_launch_of_a_loud_server() {
    dropped_launches("stderr-flood").await;
}

/// One of each: what a fixture does without a host is the same as with one.
const SUPERVISED: [&str; 5] = [
    "plain",
    "ignore-eof-term",
    "double-fork",
    "sigstop",
    "never-reads-stdin",
];

/// With an init that ends the server when its host has gone: hosts are killed.
#[tokio::test(flavor = "multi_thread")]
async fn supervised_containers_end() {
    let ways = [Way::Graceful, Way::InFlight, Way::Drop, Way::HostKilled];
    on_containers(Init::Supervised, |kit| {
        let host = HostCommand::this_test("supervised_host").unwrap();
        kit.fixtures(SUPERVISED).ways(ways).host(host)
    })
    .await;
}

/// With the engine's init, and a process beside the host that removes what it
/// leaves.
#[tokio::test(flavor = "multi_thread")]
async fn containers_end_by_the_last_will_of_their_host() {
    on_containers(Init::Engine, |kit| {
        let host = HostCommand::this_test("host_with_a_last_will").unwrap();
        let kit = kit.fixtures(SUPERVISED).ways([Way::HostKilled]).host(host);
        kit.without_experiments()
    })
    .await;
}

/// The hosts that the kit kills.
#[tokio::test]
#[ignore = "the role of a host in the tests above"]
async fn host_with_a_last_will() {
    role_of_a_host(Init::Engine).await;
}

#[tokio::test]
#[ignore = "the role of a host in the tests above"]
async fn supervised_host() {
    role_of_a_host(Init::Supervised).await;
}

async fn role_of_a_host(init: Init) {
    let host = std::env::var("DOCKER_HOST");
    let host = host.unwrap_or_else(|_| "unix:///var/run/docker.sock".to_owned());
    let engine = Engine { host };
    // One that dies leaves its lease; nobody looks there again.
    let leases = std::env::temp_dir().join("mcp-conformance-leases");
    let launcher = launcher(&engine, &leases, init);
    host::run_if_asked(launcher, &fixture()).await;
}

/// Every server has the proxy, and none of them uses it.
#[tokio::test(flavor = "multi_thread")]
async fn tracker_around_the_local_launcher() {
    let _turn = TURN.lock().await;
    let Some(engine) = Engine::of_environment() else {
        return;
    };
    let leases = tempfile::tempdir().unwrap();
    let tracker = ContainerTracker::new(LocalLauncher::new())
        .proxy(ProxyMode::Always)
        .lease_directory(leases.path());
    let fixture = FixtureCommand::new(move |args| {
        ServerSpec::builder("fixture", env!("CARGO_BIN_EXE_mcp-fixture"))
            .args(args)
            .env("DOCKER_HOST", &engine.host)
            .build()
    });
    let matrix = run(&Conformance::new(Arc::new(tracker), fixture)).await;
    println!("{matrix}");
    matrix.assert();
}
