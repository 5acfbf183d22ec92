//! The end of a pod: what is a proof, and what is not.

use std::time::Duration;

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
    ns.kubectl(&["delete", "pod", &server.pod(), "--wait=false"]);
    server.end().await.unwrap();
}

#[tokio::test]
async fn a_pod_that_somebody_deletes_by_force_is_no_proof() {
    let ns = Namespace::new("forced");
    let mut server = ns.launch(STUBBORN).await.unwrap();
    assert_eq!(server.line().await.as_deref(), Some("ready"));
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
