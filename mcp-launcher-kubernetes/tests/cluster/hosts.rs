//! What a host is to the cluster: an owner, a Lease, and a clock that may be wrong.

use std::time::{Duration, Instant};

use mcp_lifecycle_core::launch::ServerLauncher;
use serde_json::{Value, json};

use crate::support::{
    Host, LEASE, Namespace, POLITE, STUBBORN, Server, eventually, is_host, launch, options, spec,
};

const OWNED: &str = "hosts::what_a_host_owns_goes_with_its_pod";
const DEPLOYED: &str = "hosts::the_servers_of_a_deployment_go_with_it";

/// Applies an object, and removes what the API server has added to it.
fn apply(ns: &Namespace, mut object: Value) {
    let meta = object["metadata"].as_object_mut().unwrap();
    for field in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "managedFields",
        "selfLink",
    ] {
        meta.remove(field);
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), object.to_string()).unwrap();
    ns.kubectl(&["apply", "-f", file.path().to_str().unwrap()]);
}

fn lease(ns: &Namespace) -> Value {
    let leases = ns.kubectl(&["get", "leases", "-o", "json"]);
    let leases: Value = serde_json::from_str(&leases).unwrap();
    leases["items"][0].clone()
}

#[tokio::test]
async fn what_a_host_owns_goes_with_its_pod() {
    if let Some(namespace) = is_host() {
        let launcher = mcp_launcher_kubernetes::KubernetesLauncher::builder();
        let launcher = launcher.namespace(namespace).build().unwrap();
        let launched = launch(&launcher, &spec(options(), STUBBORN)).await;
        let _server: Server = launched.unwrap();
        println!("launched");
        return std::future::pending().await;
    }
    let ns = Namespace::new("owned");
    let host = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "host"}, "spec": {
        "hostNetwork": true, "containers": [{"name": "host", "image": "localhost/mcp-fixture:1",
        "imagePullPolicy": "Never", "command": ["sleep", "1000"]}]}});
    apply(&ns, host);
    let uid = ns.kubectl(&["get", "pod", "host", "-o", "jsonpath={.metadata.uid}"]);
    let env = [
        ("POD_NAME", "host"),
        ("POD_UID", &uid),
        ("POD_NAMESPACE", &ns.0),
    ];
    let mut process = Host::start_with(OWNED, &ns.0, &env);
    process.wait_for("launched");
    ns.is_told().await;
    assert_eq!(lease(&ns)["metadata"]["ownerReferences"][0]["uid"], uid);
    // As where the node of the host is taken away: it has no time to say anything.
    process.kill();
    ns.kubectl(&["delete", "pod", "host", "--force", "--grace-period=0"]);
    let begun = Instant::now();
    eventually("all is collected", || ns.names("pods,leases").is_empty()).await;
    println!("collected after {:.0?}", begun.elapsed());
}

/// A file of `contrib`, as it is.
fn contrib(name: &str) -> String {
    format!("{}/contrib/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// The Deployment of `contrib/host.yaml`, with this very program as its host: of this machine,
/// whose files the node sees. A token is asked for here, since this cluster gives none by itself.
fn deployment(ns: &Namespace) -> Value {
    let text = std::fs::read_to_string(contrib("host.yaml")).unwrap();
    let mut deployment: Value = serde_saphyr::from_str(&text).unwrap();
    let config = std::fs::read_to_string(std::env::var("KUBECONFIG").unwrap()).unwrap();
    let config: Value = serde_json::from_str(&config).unwrap();
    let authority = &config["clusters"][0]["cluster"]["certificate-authority-data"];
    apply(
        ns,
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "authority"},
            "binaryData": {"ca.crt": authority}}),
    );
    let program = std::env::current_exe().unwrap();
    let directory = program.parent().unwrap();
    let pod = &mut deployment["spec"]["template"]["spec"];
    pod["hostNetwork"] = true.into();
    pod["terminationGracePeriodSeconds"] = 2.into();
    pod["volumes"] = json!([
        {"name": "program", "hostPath": {"path": directory}},
        {"name": "libraries", "hostPath": {"path": "/usr/lib"}},
        {"name": "account", "projected": {"sources": [
            {"serviceAccountToken": {"path": "token"}},
            {"configMap": {"name": "authority"}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
        ]}},
    ]);
    let host = &mut pod["containers"][0];
    host["image"] = "localhost/mcp-fixture:1".into();
    host["imagePullPolicy"] = "Never".into();
    host["command"] = json!([program, "--exact", DEPLOYED, "--nocapture"]);
    host["volumeMounts"] = json!([
        {"name": "program", "mountPath": directory, "readOnly": true},
        {"name": "libraries", "mountPath": "/usr/lib", "readOnly": true},
        {"name": "account", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
    ]);
    let env = host["env"].as_array_mut().unwrap();
    for (name, value) in [
        ("KUBERNETES_SERVICE_HOST", "127.0.0.1"),
        ("KUBERNETES_SERVICE_PORT", "16443"),
        (crate::support::ROLE, "in-cluster"),
    ] {
        env.push(json!({"name": name, "value": value}));
    }
    deployment
}

/// The example of a host: a Deployment with the rights of the example, and no others.
#[tokio::test]
async fn the_servers_of_a_deployment_go_with_it() {
    if is_host().is_some() {
        let launcher = mcp_launcher_kubernetes::KubernetesLauncher::new().unwrap();
        let launched = launch(&launcher, &spec(options(), STUBBORN)).await;
        let _server: Server = launched.unwrap();
        return std::future::pending().await;
    }
    let ns = Namespace::new("deployment");
    let rights = std::fs::read_to_string(contrib("rbac.yaml")).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    let here = format!("namespace: {}", ns.0);
    std::fs::write(file.path(), rights.replace("namespace: default", &here)).unwrap();
    ns.kubectl(&["apply", "-f", file.path().to_str().unwrap()]);
    let deployment = deployment(&ns);
    apply(&ns, deployment);
    let select = ["get", "pods", "-l", "dev.mcp-lifecycle.role=server", "-o"];
    let phases = || ns.kubectl(&[&select[..], &["jsonpath={.items[*].status.phase}"]].concat());
    eventually("a server runs", || phases() == "Running").await;
    let hosts = ns.kubectl(&[
        "get",
        "pods",
        "-l",
        "app=mcp-host",
        "-o",
        "jsonpath={.items[*].metadata.uid}",
    ]);
    assert_eq!(lease(&ns)["metadata"]["ownerReferences"][0]["uid"], hosts);
    ns.kubectl(&["delete", "deployment", "mcp-host"]);
    let begun = Instant::now();
    eventually("all is gone", || ns.names("pods,leases").is_empty()).await;
    println!("gone after {:.0?}", begun.elapsed());
}

/// Somebody deletes the Lease and makes another of its name.
#[tokio::test]
async fn a_lease_that_is_stolen_is_taken_back_for_the_next_server() {
    let ns = Namespace::new("stolen-lease");
    let launcher = ns.launcher();
    let first = launch(&launcher, &spec(options(), POLITE)).await.unwrap();
    ns.is_told().await;
    let stolen = lease(&ns);
    ns.kubectl(&["delete", "leases", "--all"]);
    apply(&ns, stolen);
    // Its owner is not there any more: the garbage collector sees to it.
    eventually("the first server is ended", || ns.names("pods").is_empty()).await;
    first.end().await.unwrap();
    // The next renewal finds that it is lost.
    tokio::time::sleep(LEASE / 2).await;
    let mut second = launch(&launcher, &spec(options(), POLITE)).await.unwrap();
    assert_eq!(second.line().await.as_deref(), Some("ready"));
    second.end().await.unwrap();
    eventually("nothing is left", || ns.names("pods,leases").is_empty()).await;
}

/// The clocks of two hosts are 10 min late and 10 min early; only one of them lives.
#[tokio::test]
async fn a_search_believes_no_clock_but_its_own() {
    let ns = Namespace::new("clocks");
    let host = |id: &str, renewed: &str| {
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": format!("mcp-host-{}", &id[..16]), "labels": {
                "dev.mcp-lifecycle.instance": id, "dev.mcp-lifecycle.role": "host"}},
            "spec": {"holderIdentity": id, "leaseDurationSeconds": 20, "renewTime": renewed}})
    };
    let time = |offset: &str| {
        let date = std::process::Command::new("date")
            .args(["-u", "-d", offset, "+%Y-%m-%dT%H:%M:%S.%6NZ"])
            .output();
        String::from_utf8(date.unwrap().stdout)
            .unwrap()
            .trim()
            .to_owned()
    };
    let (living, dead) = ("a".repeat(32), "b".repeat(32));
    apply(&ns, host(&living, &time("now - 600 seconds")));
    apply(&ns, host(&dead, &time("now + 600 seconds")));
    let launcher = ns.launcher();
    let search = launcher.reap_orphans();
    let mut search = std::pin::pin!(search);
    loop {
        tokio::select! {
            report = &mut search => {
                report.unwrap();
                break;
            }
            () = tokio::time::sleep(Duration::from_secs(5)) => {
                apply(&ns, host(&living, &time("now - 600 seconds")));
            }
        }
    }
    assert_eq!(
        ns.names("leases"),
        [format!(
            "lease.coordination.k8s.io/mcp-host-{}",
            &living[..16]
        )]
    );
}
