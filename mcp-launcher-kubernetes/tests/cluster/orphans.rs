//! Hosts that are killed, and what the next one finds.

use std::time::{Duration, Instant};

use mcp_lifecycle_core::launch::{LaunchContext, ServerLauncher};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::support::{
    Host, LEASE, Namespace, POLITE, STUBBORN, Server, eventually, is_host, kubectl, launch,
    options, plain, spec,
};

const ME: &str = "orphans::a_dead_hosts_pods_are_ended_and_nobody_elses";
const MANY: &str = "orphans::hosts_killed_at_random_instants_leave_nothing";

/// Launches servers, says so, and waits to be killed.
async fn host(job: &str) {
    let [namespace, init, script] = job.split('|').collect::<Vec<_>>()[..] else {
        panic!("{job}");
    };
    let launcher = mcp_launcher_kubernetes::KubernetesLauncher::builder().namespace(namespace);
    let (launcher, options) = match init {
        // With the Lease that hosts have by default.
        "finalizer" => (launcher, plain().finalizer(true)),
        _ => (launcher.lease(LEASE), options()),
    };
    let launcher = launcher.build().unwrap();
    println!("launching");
    let launched = launcher
        .launch(&spec(options, script), &LaunchContext::new())
        .await;
    let _server = Server::own(launched.unwrap());
    println!("launched");
    std::future::pending::<()>().await;
}

/// What `reap_orphans` of a new host has ended.
async fn reap(ns: &Namespace) -> Vec<String> {
    let report = ns.launcher().reap_orphans().await.unwrap();
    assert!(report.is_complete(), "{report}");
    report.ended.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn a_dead_hosts_pods_are_ended_and_nobody_elses() {
    if let Some(job) = is_host() {
        return host(&job).await;
    }
    let ns = Namespace::new("orphans");
    let mut dead = Host::start(ME, &format!("orphans|finalizer|{STUBBORN}"));
    dead.wait_for("launched");
    let orphan = ns.names("pods");
    let mut living = ns.launch(POLITE).await.unwrap();
    // A copy of a server's pod, as somebody makes who debugs it.
    let copied = ns.kubectl(&["get", &orphan[0], "-o", "json"]);
    let mut copy: Value = serde_json::from_str(&copied).unwrap();
    copy["metadata"] = json!({"name": "copy", "labels": copy["metadata"]["labels"]});
    copy["status"] = Value::Null;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), copy.to_string()).unwrap();
    ns.kubectl(&["apply", "-f", file.path().to_str().unwrap()]);

    dead.kill();
    let begun = Instant::now();
    let ended = reap(&ns).await;
    println!("found and ended in {:.0?}", begun.elapsed());
    assert_eq!(ended.len(), 1, "{ended:?}");
    let left = ns.names("pods");
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left.contains(&"pod/copy".to_owned()), "{left:?}");
    assert_eq!(ns.names("leases").len(), 1);
    assert_eq!(living.line().await.as_deref(), Some("ready"));
    living.end().await.unwrap();
    kubectl(&["-n", &ns.0, "delete", "pod", "copy", "--wait=false"]);
}

/// How many hosts; more for a soak.
fn rounds() -> u64 {
    let rounds = std::env::var("MCP_KUBERNETES_HOSTS").ok();
    rounds.map_or(20, |rounds| rounds.parse().expect("a number"))
}

#[tokio::test]
async fn hosts_killed_at_random_instants_leave_nothing() {
    if let Some(job) = is_host() {
        return host(&job).await;
    }
    let ns = Namespace::new("killed-hosts");
    // The program of the init is there, as on any but the first launch.
    ns.launch(POLITE).await.unwrap().end().await.unwrap();
    let seed: u64 = std::env::var("MCP_CONFORMANCE_SEED").map_or(7, |seed| seed.parse().unwrap());
    println!("seed {seed}");
    let mut state = seed;
    for round in 0..rounds() {
        let mut dead = Host::start(MANY, &format!("killed-hosts|supervised|{STUBBORN}"));
        dead.wait_for("launching");
        // A launch takes a second or so.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(round | 1);
        tokio::time::sleep(Duration::from_millis((state >> 33) % 2500)).await;
        dead.kill();
    }
    let begun = Instant::now();
    // With nobody's help: the init ends what runs, after two graces.
    eventually("no server runs", || {
        let phases = ns.kubectl(&["get", "pods", "-o", "jsonpath={.items[*].status.phase}"]);
        !phases.contains("Running")
    })
    .await;
    let alone = begun.elapsed();
    let ended = reap(&ns).await;
    println!(
        "quiet after {alone:.0?}; {} ended after {:.0?}",
        ended.len(),
        begun.elapsed()
    );
    assert!(ns.names("pods,leases").is_empty());
    eventually("the secrets are collected", || {
        ns.names("secrets").is_empty()
    })
    .await;
    launch(&ns.launcher(), &spec(options(), POLITE))
        .await
        .unwrap()
        .end()
        .await
        .unwrap();
}

/// After the conformance kit, in whose namespaces hosts were killed by the hundred: what they
/// left is ended, and its objects go.
#[tokio::test]
async fn one_search_removes_what_the_hosts_of_the_kit_left() {
    for name in ["kubernetes", "kubernetes-plain"] {
        let select = ["-l", "dev.mcp-lifecycle.instance", "-o", "name"];
        let get = ["-n", name, "get", "pods,leases,secrets"];
        let ours = || kubectl(&[&get[..], &select].concat());
        println!("{name}: {} objects were left", ours().lines().count());
        let launcher = mcp_launcher_kubernetes::KubernetesLauncher::builder().namespace(name);
        let report = launcher.build().unwrap().reap_orphans().await.unwrap();
        println!("{name}: {} pods were ended", report.ended.len());
        assert!(report.is_complete(), "{report}");
        assert!(report.spared.is_empty(), "{report}");
        eventually("nothing is left", || ours().is_empty()).await;
    }
}

#[tokio::test]
async fn a_lease_that_is_lost_is_replaced_for_the_next_server() {
    let ns = Namespace::new("lost-lease");
    let launcher = ns.launcher();
    let first = launch(&launcher, &spec(options(), POLITE)).await.unwrap();
    ns.is_told().await;
    ns.kubectl(&["delete", "leases", "--all"]);
    // What it owned is the garbage collector's.
    eventually("the first server is ended", || ns.names("pods").is_empty()).await;
    // The next renewal finds that it is lost.
    tokio::time::sleep(LEASE / 2).await;
    let mut second = launch(&launcher, &spec(options(), POLITE)).await.unwrap();
    assert_eq!(second.line().await.as_deref(), Some("ready"));
    tokio::time::sleep(Duration::from_secs(15)).await;
    second.stdin.write_all(b"ping\n").await.unwrap();
    assert_eq!(second.line().await.as_deref(), Some("ping"));
    second.end().await.unwrap();
    drop(first);
    assert!(ns.names("pods,leases").is_empty());
}
