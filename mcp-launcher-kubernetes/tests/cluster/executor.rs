//! `mcp-executor --stdio` in a pod, over `kubectl exec -i`: nothing of this crate is in it.

use std::path::PathBuf;

use mcp_launcher_executor::ExecutorLauncher;
use mcp_lifecycle_core::launch::{LaunchContext, ServerLauncher, ServerSpec};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use crate::support::{Host, LIMIT, Namespace, Server, eventually, is_host};

const ME: &str = "executor::an_executor_in_a_pod_ends_its_servers_with_its_host";

/// A server that nobody's end of input ends, and that is found by its number.
const STUBBORN: &str = "trap '' TERM; echo ready; while :; do sleep 4242; done";

async fn launch_within(namespace: &str, script: &str) -> Server {
    let pod = ["-n", namespace, "exec", "-i", "box"];
    let command = ["--", "/executor/mcp-executor", "--stdio"];
    let config = ExecutorLauncher::command("kubectl", [&pod[..], &command].concat());
    let executor = timeout(LIMIT, ExecutorLauncher::connect(config)).await;
    let launcher = executor.expect("an executor in time").unwrap();
    let spec = ServerSpec::builder("server", "sh").args(["-c", script]);
    let (spec, context) = (spec.build().unwrap(), LaunchContext::new());
    let launched = timeout(LIMIT, launcher.launch(&spec, &context)).await;
    let mut server = Server::own(launched.expect("a launch in time").unwrap());
    assert_eq!(server.line().await.as_deref(), Some("ready"));
    server
}

/// A pod in which the executor can be run: it is linked with this machine's libraries.
fn pod() -> serde_json::Value {
    let test = std::env::current_exe().unwrap();
    let target: PathBuf = test.ancestors().nth(2).unwrap().to_owned();
    let of_host = |name: &str, path: &str| json!({"name": name, "hostPath": {"path": path}});
    let at = |name: &str, path: &str| json!({"name": name, "mountPath": path, "readOnly": true});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "box"}, "spec": {
        "hostNetwork": true, "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "box", "image": "localhost/mcp-fixture:1", "imagePullPolicy": "Never",
            "command": ["sleep", "100000"], "volumeMounts": [
                at("executor", "/executor"), at("lib", "/lib"), at("lib64", "/lib64"), at("usr", "/usr/lib")]}],
        "volumes": [of_host("executor", target.to_str().unwrap()),
            of_host("lib", "/lib"), of_host("lib64", "/lib64"), of_host("usr", "/usr/lib")]}})
}

#[tokio::test]
async fn an_executor_in_a_pod_ends_its_servers_with_its_host() {
    if let Some(namespace) = is_host() {
        let _server = launch_within(&namespace, STUBBORN).await;
        println!("launched");
        return std::future::pending().await;
    }
    let ns = Namespace::new("executor");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), pod().to_string()).unwrap();
    ns.kubectl(&["apply", "-f", file.path().to_str().unwrap()]);
    ns.kubectl(&["wait", "--for=condition=Ready", "pod/box", "--timeout=60s"]);
    let processes = || ns.kubectl(&["exec", "box", "--", "ps", "-o", "args"]);

    let mut server = launch_within(&ns.0, "echo ready; cat").await;
    server.stdin.write_all(b"ping\n").await.unwrap();
    assert_eq!(server.line().await.as_deref(), Some("ping"));
    server.end().await.unwrap();
    drop(server);
    let server = launch_within(&ns.0, STUBBORN).await;
    assert!(processes().contains("4242"), "{}", processes());
    server.end().await.unwrap();
    assert!(!processes().contains("4242"), "{}", processes());
    drop(server);

    let mut host = Host::start(ME, &ns.0);
    host.wait_for("launched");
    assert!(processes().contains("4242"));
    host.kill();
    let begun = std::time::Instant::now();
    eventually("the servers of a killed host end", || {
        !processes().contains("4242")
    })
    .await;
    println!("ended {:.1?} after its host", begun.elapsed());
    eventually("and the executor", || !processes().contains("mcp-executor")).await;
}
