//! The end of a pod: what is a proof, and what is not.

use std::time::Duration;

use mcp_lifecycle_core::launch::{LaunchContext, ServerLauncher};
use serde_json::json;

use crate::support::{
    LIMIT, Namespace, POLITE, STUBBORN, eventually, launch, options, plain, spec,
};

#[tokio::test]
async fn a_polite_and_a_stubborn_server_end_with_proof() {
    let ns = Namespace::new("ends");
    let launcher = ns.launcher();
    for (options, script) in [
        (options(), POLITE),
        (options(), STUBBORN),
        (plain(), POLITE),
        (plain(), STUBBORN),
    ] {
        let server = launch(&launcher, &spec(options, script)).await.unwrap();
        let report = server.end().await.unwrap();
        assert!(report.contains("every container terminated"), "{report}");
    }
    assert!(ns.names("pods,leases").is_empty());
}

#[tokio::test]
async fn a_pod_that_somebody_deletes_in_order_is_gone() {
    let ns = Namespace::new("deleted");
    let mut server = ns.launch(POLITE).await.unwrap();
    assert_eq!(server.line().await.as_deref(), Some("ready"));
    ns.is_told().await;
    ns.kubectl(&["delete", "pod", &server.pod(), "--wait=false"]);
    server.end().await.unwrap();
}

#[tokio::test]
async fn a_pod_that_somebody_deletes_by_force_is_no_proof() {
    let ns = Namespace::new("forced");
    let mut server = ns.launch(STUBBORN).await.unwrap();
    assert_eq!(server.line().await.as_deref(), Some("ready"));
    ns.is_told().await;
    ns.kubectl(&[
        "delete",
        "pod",
        &server.pod(),
        "--force",
        "--grace-period=0",
    ]);
    let text = server.end().await.unwrap_err();
    assert!(text.contains("node node1 had not confirmed"), "{text}");
    assert!(text.contains("container containerd://"), "{text}");
}

/// No watch over labels has it any more, and it is not taken for one that was deleted.
#[tokio::test]
async fn a_pod_whose_labels_somebody_removes_is_ended_with_proof() {
    let ns = Namespace::new("labels");
    let mut server = ns.launch(STUBBORN).await.unwrap();
    assert_eq!(server.line().await.as_deref(), Some("ready"));
    let label = "dev.mcp-lifecycle.instance-";
    ns.kubectl(&["label", "pod", &server.pod(), label]);
    let lives = tokio::time::timeout(Duration::from_secs(3), server.handle.exited());
    assert!(lives.await.is_err(), "it is not thought to have ended");
    let report = server.end().await.unwrap();
    assert!(report.contains("every container terminated"), "{report}");
    assert!(ns.names("pods").is_empty());
}

#[tokio::test]
async fn a_finalizer_makes_an_end_by_force_provable() {
    let ns = Namespace::new("finalizer");
    let launcher = ns.launcher();
    let kept = || spec(plain().finalizer(true), STUBBORN);
    let server = launch(&launcher, &kept()).await.unwrap();
    ns.is_told().await;
    let force = ["--force", "--grace-period=0", "--wait=false"];
    ns.kubectl(&[&["delete", "pod", &server.pod()], &force[..]].concat());
    let report = server.end().await.unwrap();
    assert!(report.contains("every container terminated"), "{report}");
    // And in an orderly end it is in nobody's way, nor where no node takes the pod.
    let server = launch(&launcher, &kept()).await.unwrap();
    server.end().await.unwrap();
    let nowhere = plain()
        .finalizer(true)
        .pod(json!({"spec": {"nodeSelector": {"no": "such-node"}}}));
    let soon = tokio::time::Instant::now() + Duration::from_secs(3);
    let context = LaunchContext::new().with_deadline(soon);
    let launched = launcher.launch(&spec(nowhere, STUBBORN), &context).await;
    assert!(launched.is_err());
    eventually("nothing is left", || ns.names("pods,leases").is_empty()).await;
}

#[tokio::test]
async fn the_exit_and_the_end_of_the_output_are_told() {
    let ns = Namespace::new("exit");
    let mut server = ns.launch("echo ready; read line; exit 7").await.unwrap();
    assert_eq!(server.line().await.as_deref(), Some("ready"));
    drop(server.stdin);
    assert_eq!(
        tokio::time::timeout(LIMIT, server.stdout.next_line())
            .await
            .unwrap()
            .unwrap(),
        None
    );
    let exit = tokio::time::timeout(Duration::from_secs(30), server.handle.exited()).await;
    assert_eq!(exit.unwrap().to_string(), "exit code 7");
    eventually("the ended pod is removed", || ns.names("pods").is_empty()).await;
}

/// Takes all the memory there is, once it is told to.
const GREEDY: &str = "echo ready; read line; a=$line; while :; do a=$a$a; done";

#[tokio::test]
async fn a_lack_of_memory_is_told() {
    use tokio::io::AsyncWriteExt;

    let ns = Namespace::new("memory");
    let launcher = ns.launcher();
    for options in [options(), plain()] {
        let limited = spec(options.limit("memory", "32Mi"), GREEDY);
        let mut server = launch(&launcher, &limited).await.unwrap();
        server.stdin.write_all(b"0123456789\n").await.unwrap();
        let exit = tokio::time::timeout(LIMIT, server.handle.exited()).await;
        assert_eq!(exit.unwrap().to_string(), "killed for lack of memory");
        server.end().await.unwrap();
    }
}
