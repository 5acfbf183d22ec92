//! The conformance kit on a real cluster: that of `KUBECONFIG`, as `tests/kubernetes/lane`
//! sets it. Its node sees the files of this machine.

use std::process::ExitCode;
use std::time::Duration;

use mcp_launcher_kubernetes::{Init, KubernetesLauncher, PodOptions};
use mcp_lifecycle_conformance::{FixtureCommand, Kit, Way, main as run};
use mcp_lifecycle_core::ServerSpec;
use mcp_lifecycle_core::launch::ServerSpecBuilder;
use serde_json::json;

/// One of each kind: what a fixture does is the same in every pod.
const SOME: [&str; 6] = [
    "plain",
    "ignore-eof-term",
    "double-fork",
    "sigstop",
    "stdout-flood",
    "crash-loop",
];

fn main() -> ExitCode {
    run([
        on_pods("kubernetes", Init::Supervised),
        on_pods("kubernetes-plain", Init::None).skip(
            "one of each kind is enough without an init",
            |fixture, _| !SOME.contains(&fixture.name()),
        ),
    ])
}

fn on_pods(name: &str, init: Init) -> Kit {
    let launcher = move || async move {
        let launcher = KubernetesLauncher::builder().init(init).build();
        launcher.expect("a launcher")
    };
    Kit::new(name, launcher)
        .with_fixture(FixtureCommand::new(in_a_pod))
        // A search beside a dead host's Lease takes 42 s.
        .with_limit(Duration::from_secs(60))
        .with_rounds(5)
        // Every await point takes a pod of its own, and each is deleted, whatever is in it.
        .skip(
            "a launch is undone the same way whatever it launches",
            |fixture, way| way == Way::Cancelled && fixture.name() != "plain",
        )
}

/// The fixture in a pod that sees nothing but the observer's socket.
fn in_a_pod(args: Vec<String>) -> ServerSpecBuilder {
    let mut options = PodOptions::new("localhost/mcp-fixture:1")
        .init_grace_ms(2000)
        // The observer's socket is this user's.
        .run_as_user(0)
        .run_as_non_root(false)
        .pod(json!({"spec": {"nodeName": "node1", "hostNetwork": true}}));
    let socket = args.iter().find_map(|arg| arg.strip_prefix("unix:"));
    if let Some(directory) = socket.and_then(|socket| socket.strip_suffix("/s")) {
        options = options.volume(
            json!({"name": "observer", "hostPath": {"path": directory}}),
            json!({"name": "observer", "mountPath": directory}),
        );
    }
    options.apply(ServerSpec::builder("fixture", "/mcp-fixture").args(args))
}
