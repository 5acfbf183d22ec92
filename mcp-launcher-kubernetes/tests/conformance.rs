//! The conformance kit on a real cluster: that of `KUBECONFIG`, as `tests/kubernetes/lane`
//! sets it. Its node sees the files of this machine.

use std::process::ExitCode;
use std::time::Duration;

use mcp_launcher_kubernetes::{Init, KubernetesLauncher, PodOptions};
use mcp_lifecycle_conformance::{Fixture, FixtureCommand, Kit, Way, main as run};
use mcp_lifecycle_core::ServerSpec;
use mcp_lifecycle_core::launch::ServerSpecBuilder;
use serde_json::json;

/// Set to `all`, every cell is run with an init and without one; and more hosts are killed.
const CELLS: &str = "MCP_KUBERNETES_CELLS";

/// Shorter than by default: every search beside a dead host takes as long.
const LEASE: Duration = Duration::from_secs(12);

fn all() -> bool {
    std::env::var(CELLS).is_ok_and(|cells| cells == "all")
}

fn main() -> ExitCode {
    let half = format!("every cell is run with an init or without one, unless {CELLS}=all");
    run([
        on_pods("kubernetes", Init::Supervised).skip(half.clone(), |fixture, way| {
            !all() && !is_with_an_init(fixture, way)
        }),
        // Without an init a container runs before anybody can be attached to it.
        on_pods("kubernetes-plain", Init::None)
            .attaches_late()
            .skip(half, |fixture, way| !all() && is_with_an_init(fixture, way)),
    ])
}

/// Every other cell, in both directions; the death of a host is what the init is for.
fn is_with_an_init(fixture: Fixture, way: Way) -> bool {
    let mut fixtures = Fixture::all().iter();
    let row = fixtures.position(|other| other.name() == fixture.name());
    let column = Way::ALL.iter().position(|other| *other == way);
    let is_even = row
        .zip(column)
        .is_none_or(|(row, column)| (row + column) % 2 == 0);
    is_even || matches!(way, Way::HostKilled | Way::Spawning)
}

/// In a namespace of this name: a search ends what killed hosts of other cells have left.
fn on_pods(name: &'static str, init: Init) -> Kit {
    let launcher = move || async move {
        let launcher = KubernetesLauncher::builder().namespace(name);
        let launcher = launcher.init(init).lease(LEASE).build();
        launcher.expect("a launcher")
    };
    Kit::new(name, launcher)
        .fixture(FixtureCommand::new(in_a_pod))
        // A kubelet of 1.20 looks at its containers once a second. One that it sees ended while
        // it still ends the sandbox of a pod that is deleted, it removes before it has told how
        // it ended: rarely on an idle machine, nearly always beside a load of 30. The evidence
        // says so then, and no other end may be without its status.
        .loses_exits("is inferred")
        // A search waits for a dead host's Lease, and the ends of what it left take more.
        .limit(Duration::from_secs(120))
        .rounds(if all() { 5 } else { 2 })
        // Every await point takes a pod of its own, and each is deleted, whatever is in it.
        .skip(
            "a launch is undone the same way whatever it launches",
            |fixture, way| way == Way::Cancelled && fixture.name() != "plain",
        )
}

/// The fixture in a pod that sees nothing but the observer's socket.
fn in_a_pod(args: Vec<String>) -> ServerSpecBuilder {
    let mut options = PodOptions::new("localhost/mcp-fixture:1")
        .init_grace(Duration::from_secs(2))
        // The observer's socket is this user's.
        .run_as_user(0)
        .run_as_non_root(false)
        .pod(json!({"spec": {"nodeName": "node1", "hostNetwork": true}}));
    let socket = args.iter().find_map(|arg| arg.strip_prefix("unix:"));
    if let Some(directory) = socket.and_then(|socket| socket.strip_suffix("/s")) {
        let mount = json!({"name": "observer", "mountPath": directory});
        options = options.pod(json!({"spec": {
            "volumes": [{"name": "observer", "hostPath": {"path": directory}}],
            "containers": [{"name": "server", "volumeMounts": [mount]}],
        }}));
    }
    options.apply(ServerSpec::builder("fixture", "/mcp-fixture").args(args))
}
