//! The conformance kit on the Docker launcher, and on the tracker of wrapped
//! containers around the local one.

#[path = "docker/support/mod.rs"]
#[expect(
    dead_code,
    unused_imports,
    reason = "the other tests with an engine use the rest"
)]
mod support;

use std::sync::Arc;

use mcp_launcher_docker::{
    ContainerOptions, ContainerTracker, DockerLauncher, Endpoint, ProxyMode,
};
use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_conformance::{Conformance, Fixture, FixtureCommand, run};
use mcp_lifecycle_core::{ServerLauncher, ServerSpec};

use support::{Engine, image};

/// The fixture in a container that sees nothing but the observer's socket.
fn fixture() -> FixtureCommand {
    FixtureCommand::new(|args: Vec<String>| {
        let mut options = ContainerOptions::new("mcp-fixture:test");
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

/// In parts, each of which fits into the time that a runner gives to a test.
const PARTS: usize = 8;

/// The census counts the whole process: tests take turns.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

async fn part_on_containers(part: usize) {
    let _turn = TURN.lock().await;
    let Some(engine) = Engine::of_environment() else {
        return;
    };
    image(&engine);
    let leases = tempfile::tempdir().unwrap();
    let launcher: Arc<dyn ServerLauncher> = Arc::new(
        DockerLauncher::builder()
            .endpoint(Endpoint::from_url(&engine.host).unwrap())
            .lease_directory(leases.path())
            .build()
            .unwrap(),
    );
    let fixtures = Fixture::all().iter().skip(part).step_by(PARTS);
    let kit = Conformance::new(launcher, fixture()).fixtures(fixtures.map(|f| f.name()));
    let matrix = run(&kit).await;
    println!("{matrix}");
    matrix.assert();
}

macro_rules! parts {
    ($($name:ident $part:expr,)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            part_on_containers($part).await;
        }
    )*};
}

parts! {
    containers_0 0,
    containers_1 1,
    containers_2 2,
    containers_3 3,
    containers_4 4,
    containers_5 5,
    containers_6 6,
    containers_7 7,
}

/// Every server has the proxy, and none of them uses it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "known gap: the census sees a proxy's socket that closes a moment after the end"]
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
