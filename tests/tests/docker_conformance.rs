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

use mcp_launcher_docker::{ContainerOptions, ContainerTracker, DockerLauncher, Endpoint};
use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_conformance::{Conformance, FixtureCommand, run};
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

#[tokio::test(flavor = "multi_thread")]
async fn the_kit_passes_on_containers() {
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
    let kit = Conformance::new(launcher, fixture());
    let matrix = run(&kit).await;
    println!("{matrix}");
    matrix.assert();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "counts descriptors: alone in its process, by --ignored"]
async fn the_kit_passes_on_the_tracker() {
    let leases = tempfile::tempdir().unwrap();
    let tracker = ContainerTracker::new(LocalLauncher::new()).lease_directory(leases.path());
    let program = env!("CARGO_BIN_EXE_mcp-fixture");
    let kit = Conformance::new(Arc::new(tracker), FixtureCommand::local(program));
    let matrix = run(&kit).await;
    println!("{matrix}");
    matrix.assert();
}
