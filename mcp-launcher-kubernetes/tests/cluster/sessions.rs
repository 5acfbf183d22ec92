//! Sessions that are quiet for long, and connections that cannot be trusted any more.

use std::time::{Duration, Instant};

use mcp_launcher_kubernetes::KubernetesLauncher;
use tokio::io::AsyncWriteExt;
use tokio::time::sleep;

use crate::support::{
    LIMIT, Namespace, POLITE, SOON, Server, eventually, launch, options, plain, spec,
};
use crate::way::Way;

async fn answers(server: &mut Server) {
    server.stdin.write_all(b"ping\n").await.unwrap();
    assert_eq!(server.line().await.as_deref(), Some("ping"));
}

/// The nodes of the lane cut sessions that are quiet for 30 s, as others do after 4 h: one that
/// nothing keeps alive, and that is told; not one that is kept alive as by default.
#[tokio::test(flavor = "multi_thread")]
async fn a_quiet_session_outlives_the_limit_of_its_node() {
    let ns = Namespace::new("quiet");
    let silent = KubernetesLauncher::builder().namespace(&ns.0);
    let silent = silent
        .keep_alive(Duration::from_secs(3600))
        .build()
        .unwrap();
    // Of the launch: the node counts from the attach on, and a busy one is long about a second launch.
    let begun = Instant::now();
    let mut cut = launch(&silent, &spec(options(), POLITE)).await.unwrap();
    let mut kept = ns.launch(POLITE).await.unwrap();
    for server in [&mut cut, &mut kept] {
        assert_eq!(server.line().await.as_deref(), Some("ready"));
    }
    assert_eq!(cut.line().await, None, "the end of the output");
    println!("cut after {:.0?}", begun.elapsed());
    assert!(begun.elapsed() > Duration::from_secs(25));
    cut.end().await.unwrap();
    sleep(Duration::from_secs(40)).await;
    answers(&mut kept).await;
    kept.end().await.unwrap();
}

/// The protocol that this cluster speaks: version 4, unless `v5` is told, as where a translator of
/// a later API server stands before it.
fn closes_the_input_alone() -> bool {
    std::env::var("MCP_KUBERNETES_PROTOCOL").is_ok_and(|protocol| protocol == "v5")
}

/// Version 5 of the protocol closes the input alone; with version 4 the session ends with it.
#[tokio::test]
async fn what_is_said_after_the_end_of_the_input_arrives_where_the_protocol_has_it() {
    let ns = Namespace::new("last-words");
    for options in [options(), plain()] {
        let script = spec(options, "echo ready; cat; echo goodbye");
        let mut server = launch(&ns.launcher(), &script).await.unwrap();
        answers_after_ready(&mut server).await;
        server.stdin.shutdown().await.unwrap();
        let last = closes_the_input_alone().then_some("goodbye");
        assert_eq!(server.line().await.as_deref(), last);
        server.end().await.unwrap();
    }
}

async fn answers_after_ready(server: &mut Server) {
    // Without an init the first line may come before anybody is attached.
    server.stdin.write_all(b"ping\n").await.unwrap();
    let first = server.line().await;
    if first.as_deref() == Some("ready") {
        assert_eq!(server.line().await.as_deref(), Some("ping"));
    } else {
        assert_eq!(first.as_deref(), Some("ping"));
    }
}

/// As proxies do, also those that look at what comes back alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_kept_alive_through_a_proxy_that_cuts_what_is_quiet() {
    let ns = Namespace::new("impatient");
    let way = Way::new(Some(Duration::from_secs(6)));
    let often = way.launcher(&ns.0).keep_alive(Duration::from_secs(1));
    let often = often.build().unwrap();
    let mut kept = launch(&often, &spec(options(), POLITE)).await.unwrap();
    assert_eq!(kept.line().await.as_deref(), Some("ready"));
    // By default every 20 s, which is not often enough here: that it is cut is told.
    let seldom = way.launcher(&ns.0).build().unwrap();
    let mut cut = launch(&seldom, &spec(options(), POLITE)).await.unwrap();
    assert_eq!(cut.line().await.as_deref(), Some("ready"));
    let begun = Instant::now();
    assert_eq!(cut.line().await, None, "the end of the output");
    println!("cut after {:.0?}", begun.elapsed());
    cut.end().await.unwrap();
    sleep(Duration::from_secs(15)).await;
    answers(&mut kept).await;
    kept.end().await.unwrap();
    eventually("nothing is left", || ns.names("pods,leases").is_empty()).await;
}

/// Nobody is asked who cannot be trusted. The end says so in time, and names the pod; when the
/// API server is back the same pod is ended, with the proof.
#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_finds_a_foreign_certificate_says_so_and_is_tried_again() {
    let ns = Namespace::new("foreign");
    let way = Way::new(None);
    let launcher = way.launcher(&ns.0).build().unwrap();
    let stubborn = "trap '' TERM; echo ready; while :; do sleep 1; done";
    let mut server = launch(&launcher, &spec(options(), stubborn)).await.unwrap();
    assert_eq!(server.line().await.as_deref(), Some("ready"));
    let pod = ns.kubectl(&["get", "pods", "-o", "jsonpath={.items[0].metadata.uid}"]);
    way.is_foreign(true);
    let begun = Instant::now();
    let text = server.end_within(SOON).await.unwrap_err();
    assert!(begun.elapsed() < LIMIT, "{:.0?}", begun.elapsed());
    assert!(
        text.contains(&server.pod()) && text.contains(&pod),
        "{text}"
    );
    assert!(text.contains("not to be trusted"), "{text}");
    // Nor is a launch of any use, and it does not wait for that.
    let begun = Instant::now();
    let launched = launch(&launcher, &spec(options(), POLITE)).await;
    let text = launched.err().unwrap().to_string();
    assert!(text.contains("not to be trusted"), "{text}");
    assert!(
        begun.elapsed() < Duration::from_secs(15),
        "{:.0?}",
        begun.elapsed()
    );
    way.is_foreign(false);
    let report = server.end().await.unwrap();
    assert!(report.contains("every container terminated"), "{report}");
    eventually("nothing is left", || ns.names("pods").is_empty()).await;
}
