//! Services of the cluster are killed in the middle of a server's life.

use std::process::Command;

use crate::support::{
    Namespace, POLITE, SOON, STUBBORN, Server, cluster, eventually, launch, options, plain, spec,
};

/// The kubelet goes on, whatever becomes of the test.
struct Stopped;

impl Drop for Stopped {
    fn drop(&mut self) {
        cluster(&["kill", "kubelet", "CONT"]);
    }
}

async fn lives_through(name: &str, service: &str, script: &str) {
    let ns = Namespace::new(name);
    let mut server: Server = ns.launch(script).await.unwrap();
    assert_eq!(server.line().await.as_deref(), Some("ready"));
    ns.is_told().await;
    cluster(&["kill", service]);
    let mut restarted = tokio::task::spawn_blocking({
        let service = service.to_owned();
        move || {
            std::thread::sleep(std::time::Duration::from_secs(2));
            cluster(&["start", &service]);
        }
    });
    let ended = server.end();
    let mut ended = std::pin::pin!(ended);
    let report = tokio::select! {
        report = &mut ended => {
            restarted.await.unwrap();
            report
        }
        done = &mut restarted => {
            done.unwrap();
            ended.await
        }
    };
    report.unwrap();
    eventually("nothing is left", || ns.names("pods").is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_is_killed_delays_the_proof() {
    lives_through("killed-api", "apiserver", POLITE).await;
    lives_through("killed-api-stubborn", "apiserver", STUBBORN).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubelet_that_is_killed_delays_the_proof() {
    lives_through("killed-kubelet", "kubelet", STUBBORN).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_containerd_that_is_killed_delays_the_proof() {
    lives_through("killed-containerd", "containerd", STUBBORN).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_is_killed_in_a_launch_is_waited_for() {
    let ns = Namespace::new("killed-in-launch");
    let launcher = ns.launcher();
    // So that all that comes before is there.
    let polite = spec(options(), POLITE);
    let first = launch(&launcher, &polite).await;
    first.unwrap().end().await.unwrap();
    cluster(&["kill", "apiserver"]);
    let restarted = tokio::task::spawn_blocking(|| cluster(&["start", "apiserver"]));
    let mut server = launch(&launcher, &polite).await.unwrap();
    restarted.await.unwrap();
    assert_eq!(server.line().await.as_deref(), Some("ready"));
    server.end().await.unwrap();
}

/// Whatever comes of the launch: a server that ends with proof, or an error that leaves nothing.
#[tokio::test(flavor = "multi_thread")]
async fn what_runs_pods_and_is_killed_in_a_launch_costs_no_pod() {
    for service in ["kubelet", "containerd"] {
        let ns = Namespace::new(&format!("killed-in-launch-{service}"));
        let launcher = ns.launcher();
        let launching =
            tokio::spawn(async move { launch(&launcher, &spec(options(), STUBBORN)).await });
        eventually("there is a pod", || !ns.names("pods").is_empty()).await;
        cluster(&["kill", service]);
        cluster(&["start", service]);
        match launching.await.unwrap() {
            Ok(server) => println!("{service}: {:?}", server.end().await),
            Err(error) => println!("{service}: {error}"),
        }
        eventually("nothing is left", || ns.names("pods,leases").is_empty()).await;
    }
}

/// A container that is removed behind the back of its kubelet gets a successor, also in a pod
/// that never restarts. It is ended, too.
#[tokio::test]
async fn the_successor_of_a_container_that_was_taken_away_is_ended() {
    let ns = Namespace::new("successor");
    let launched = launch(&ns.launcher(), &spec(plain(), STUBBORN)).await;
    let server = launched.unwrap();
    let id = || {
        let path = "jsonpath={.items[*].status.containerStatuses[*].containerID}";
        let id = ns.kubectl(&["get", "pods", "-o", path]);
        id.replace("containerd://", "")
    };
    ns.is_told().await;
    let first = id();
    let directory = std::env::var("MCP_TEST_CLUSTER").unwrap();
    let directory = directory.split(' ').nth(1).unwrap();
    let socket = format!("{directory}/run/node1/containerd.sock");
    let ctr = |args: &[&str]| {
        let own = ["-a", &socket, "-n", "k8s.io"];
        let status = Command::new("ctr").args(own).args(args).status();
        status.unwrap().success()
    };
    cluster(&["kill", "kubelet", "STOP"]);
    assert!(ctr(&["task", "kill", "--signal", "KILL", &first]));
    eventually("it can be removed", || ctr(&["container", "rm", &first])).await;
    // What it remembers of it goes with it.
    cluster(&["kill", "containerd"]);
    cluster(&["start", "containerd"]);
    cluster(&["kill", "kubelet", "CONT"]);
    eventually("there is another", || !id().is_empty() && id() != first).await;
    let report = server.end().await.unwrap();
    assert!(report.contains("every container terminated"), "{report}");
    assert!(ns.names("pods,leases").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_does_not_answer_is_named() {
    let ns = Namespace::new("silent-node");
    let mut server = ns.launch(STUBBORN).await.unwrap();
    assert_eq!(server.line().await.as_deref(), Some("ready"));
    ns.is_told().await;
    cluster(&["kill", "kubelet", "STOP"]);
    let stopped = Stopped;
    let text = server.end_within(SOON).await.unwrap_err();
    assert!(
        text.contains("on node node1, container containerd://"),
        "{text}"
    );
    drop(stopped);
    server.end().await.unwrap_or_default();
    eventually("nothing is left", || ns.names("pods").is_empty()).await;
}
