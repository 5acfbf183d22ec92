//! A second node, that is cut off, drained, or ends a pod itself.

use std::time::Duration;

use mcp_launcher_kubernetes::PodOptions;
use serde_json::json;

use crate::support::{
    Namespace, SOON, STUBBORN, Server, cluster, eventually, kubectl, launch, options, spec,
};

fn on_node2() -> PodOptions {
    options().pod(json!({"spec": {
        "nodeSelector": {"kubernetes.io/hostname": "node2"},
        "tolerations": [{"key": "only", "operator": "Exists"}],
    }}))
}

async fn launch_on_node2(ns: &Namespace, script: &str) -> Server {
    let launched = launch(&ns.launcher(), &spec(on_node2(), script)).await;
    let mut server = launched.unwrap();
    assert_eq!(server.line().await.as_deref(), Some("ready"));
    let node = ns.kubectl(&["get", "pods", "-o", "jsonpath={.items[0].spec.nodeName}"]);
    assert_eq!(node, "node2");
    ns.is_told().await;
    server
}

/// The network comes back, whatever becomes of the test.
struct Cut;

impl Drop for Cut {
    fn drop(&mut self) {
        cluster(&["network", "up"]);
    }
}

#[tokio::test]
async fn a_node_that_is_cut_off_is_named_and_its_pod_proven_gone_when_it_is_back() {
    let ns = Namespace::new("partition");
    let server = launch_on_node2(&ns, STUBBORN).await;
    cluster(&["network", "down"]);
    let cut = Cut;
    let text = server.end_within(SOON).await.unwrap_err();
    let named = "on node node2, container containerd://";
    assert!(text.contains(named), "{text}");
    // The control plane has given the node up, and the object stays all the same.
    let ready = r#"jsonpath={.status.conditions[?(@.type=="Ready")].status}"#;
    eventually("the node is given up", || {
        kubectl(&["get", "node", "node2", "-o", ready]) == "Unknown"
    })
    .await;
    assert_eq!(ns.names("pods").len(), 1);
    drop(cut);
    eventually("nothing is left", || ns.names("pods").is_empty()).await;
    let report = server.end().await.unwrap();
    assert!(report.contains("every container terminated"), "{report}");
    eventually("the Lease goes", || ns.names("leases").is_empty()).await;
    eventually("the node is back", || {
        kubectl(&["get", "node", "node2", "-o", ready]) == "True"
    })
    .await;
}

#[tokio::test]
async fn a_pod_that_a_drain_evicts_is_proven_gone() {
    let ns = Namespace::new("drained");
    let server = launch_on_node2(&ns, STUBBORN).await;
    let pods = "--pod-selector=dev.mcp-lifecycle.instance";
    // As no controller would make it again, it takes the word.
    kubectl(&["drain", "node2", "--force", pods, "--timeout=60s"]);
    let report = server.end().await;
    kubectl(&["uncordon", "node2"]);
    let report = report.unwrap();
    assert!(report.contains("every container terminated"), "{report}");
    assert!(ns.names("pods,leases").is_empty());
}

/// A kubelet of 1.20 drops the containers from the status of what it evicts: see
/// `docs/kubernetes.md`. Nothing is left, and what is not known is not claimed.
#[tokio::test]
async fn a_pod_that_its_kubelet_evicts_ends_and_leaves_nothing() {
    let ns = Namespace::new("evicted");
    let small = json!({"name": "small", "emptyDir": {"sizeLimit": "1Mi"}});
    let mount = json!({"name": "small", "mountPath": "/small"});
    let options = on_node2().pod(json!({"spec": {
        "volumes": [small], "containers": [{"name": "server", "volumeMounts": [mount]}],
    }}));
    let script = "trap '' TERM; umask 0; dd if=/dev/zero of=/small/x bs=1M count=8 2>/dev/null; \
        echo ready; while :; do sleep 1; done";
    let launched = launch(&ns.launcher(), &spec(options, script)).await;
    let mut server = launched.unwrap();
    assert_eq!(server.line().await.as_deref(), Some("ready"));
    let reason = "jsonpath={.items[*].status.reason}";
    eventually("it is evicted", || {
        ns.names("pods").is_empty() || ns.kubectl(&["get", "pods", "-o", reason]) == "Evicted"
    })
    .await;
    let ended = tokio::time::timeout(Duration::from_secs(120), server.end()).await;
    println!("evicted: {ended:?}");
    match ended.expect("an end, or that it cannot be proven") {
        Ok(report) => assert!(report.contains("every container terminated"), "{report}"),
        Err(text) => assert!(text.contains("node2"), "{text}"),
    }
    eventually("nothing is left", || ns.names("pods").is_empty()).await;
}
