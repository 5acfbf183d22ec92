//! Services of the cluster are killed in the middle of a server's life.

use crate::support::{
    Namespace, POLITE, STUBBORN, Server, cluster, eventually, launch, options, spec,
};

async fn lives_through(name: &str, service: &str, script: &str) {
    let ns = Namespace::new(name);
    let mut server: Server = ns.launch(script).await.unwrap();
    assert_eq!(server.line().await.as_deref(), Some("ready"));
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

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_does_not_answer_is_named() {
    let ns = Namespace::new("silent-node");
    let mut server = ns.launch(STUBBORN).await.unwrap();
    assert_eq!(server.line().await.as_deref(), Some("ready"));
    cluster(&["kill", "kubelet", "STOP"]);
    let text = server.end().await.unwrap_err();
    assert!(
        text.contains("on node node1, container containerd://"),
        "{text}"
    );
    cluster(&["kill", "kubelet", "CONT"]);
    server.end().await.unwrap_or_default();
    eventually("nothing is left", || ns.names("pods").is_empty()).await;
}
