//! The conformance kit on the Docker launcher, and on the tracker of wrapped
//! containers around the local one.

#[path = "docker/support/mod.rs"]
#[expect(
    dead_code,
    unused_imports,
    reason = "the other tests with an engine use the rest"
)]
mod support;

use std::env;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use mcp_launcher_docker::{ContainerOptions, ContainerTracker, DockerLauncher, Endpoint, Init};
use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_conformance::{FixtureCommand, Kit, Way, main as run};
use mcp_lifecycle_core::launch::ServerSpec;

use support::{Engine, image};

/// Tells a process of the kit where the engine is, and where hosts leave their ledgers.
const ENGINE: &str = "MCP_TEST_ENGINE";
const LEDGERS: &str = "MCP_TEST_LEDGERS";

/// One of each: what a fixture does without a host is the same as with one.
const SOME: [&str; 5] = [
    "plain",
    "ignore-eof-term",
    "double-fork",
    "sigstop",
    "never-reads-stdin",
];

fn main() -> ExitCode {
    let one_of_each = "the engine does the same with each: one of each kind is enough";
    run([
        // With the engine's init, and a process beside the host that removes what it leaves.
        on_containers("docker", Init::Engine)
            .skip(one_of_each, |fixture, way| {
                way == Way::HostKilled && !SOME.contains(&fixture.name())
            })
            // It takes dozens of containers to try every await point, and each is
            // removed, whatever is in it. So: one that leaves, and one that does not,
            // with output that nobody takes.
            .skip(one_of_each, |fixture, way| {
                way == Way::Cancelled && !["plain", "stderr-flood"].contains(&fixture.name())
            }),
        // With an init that ends the server when its host has gone.
        on_containers("docker-supervised", Init::Supervised)
            .skip(one_of_each, |fixture, _| !SOME.contains(&fixture.name()))
            .skip("the same as with the engine's init", |_, way| {
                ![Way::Graceful, Way::InFlight, Way::Drop, Way::HostKilled].contains(&way)
            }),
        // Every server has the proxy, and none of them uses it.
        Kit::new("docker-wrapped", || async {
            ContainerTracker::new(Arc::new(LocalLauncher::new()))
                .require_proxy(true)
                .ledger_directory(told(LEDGERS))
        })
        .fixture(FixtureCommand::new(|args| {
            ServerSpec::builder("fixture", env!("CARGO_BIN_EXE_mcp-fixture"))
                .args(args)
                .env("DOCKER_HOST", told(ENGINE))
        }))
        .processes(processes),
    ])
}

fn on_containers(name: &str, init: Init) -> Kit {
    let launcher = move || async move {
        let engine = told(ENGINE).into_os_string().into_string().unwrap();
        let launcher = DockerLauncher::builder()
            .endpoint(Endpoint::from_url(&engine).unwrap())
            .ledger_directory(told(LEDGERS))
            .init(init);
        launcher.build().unwrap()
    };
    Kit::new(name, launcher)
        // An engine beside eight busy programs has taken more than 10 s for a start.
        .limit(Duration::from_secs(60))
        .fixture(FixtureCommand::new(in_a_container))
        .processes(processes)
}

/// The fixture in a container that sees nothing but the observer's socket.
fn in_a_container(args: Vec<String>) -> mcp_lifecycle_core::launch::ServerSpecBuilder {
    let mut options = ContainerOptions::new("mcp-fixture:test")
        .init_grace(Duration::from_secs(2))
        .network("none");
    let socket = args.iter().find_map(|arg| arg.strip_prefix("unix:"));
    if let Some(directory) = socket.and_then(|socket| socket.strip_suffix("/s")) {
        options = options.bind_writable(directory, directory);
    }
    options.apply(ServerSpec::builder("fixture", "/mcp-fixture").args(args))
}

fn processes() -> Result<impl Fn() -> Command, String> {
    let Some(engine) = Engine::of_environment() else {
        return Err("MCP_DOCKER_TESTS=skip".to_owned());
    };
    image(&engine);
    let ledgers = tempfile::tempdir().unwrap();
    Ok(move || {
        let mut command = Command::new(env::current_exe().unwrap());
        command
            .env(ENGINE, &engine.host)
            .env(LEDGERS, ledgers.path());
        command
    })
}

/// The path that the run has told this process.
fn told(name: &str) -> PathBuf {
    env::var_os(name).expect("the run has told it").into()
}
