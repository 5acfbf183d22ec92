//! Sessions with a kubelet that is slow, and with a host that is busy.

use std::time::{Duration, Instant};

use mcp_launcher_kubernetes::{Init, KubernetesLauncher, PodOptions};
use mcp_lifecycle_core::launch::{
    ExitStatus, LaunchContext, LaunchError, LaunchedServer, ServerLauncher,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use crate::{LIMIT, Model, V5, launch};

/// A launch attaches without a status. Nor does a forced end wait for one: its host may be about
/// to exit.
#[tokio::test]
async fn a_kubelet_that_says_nothing_holds_up_neither_a_launch_nor_a_forced_end() {
    let model = Model::start(V5);
    model.refuse("say status", 1, 1);
    let server = launch(&model.launcher()).await;
    model.counts();
    let begun = Instant::now();
    server.handle.kill_now();
    while !model.counts().requests.contains_key("delete pods") {
        assert!(begun.elapsed() < LIMIT, "no deletion");
        sleep(Duration::from_millis(50)).await;
    }
    // It would be 10 s after the attach.
    assert!(
        begun.elapsed() < Duration::from_secs(6),
        "{:?}",
        begun.elapsed()
    );
    server.end().await;
}

/// Some proxies look at what comes back only: the answers to pings.
#[tokio::test]
async fn a_session_is_pinged_while_its_input_flows() {
    let model = Model::start(V5);
    let launcher = model.launcher_kept_alive(Duration::from_secs(1));
    let mut server = launch(&launcher).await;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(4) {
        server.stdin.write_all(b"line\n").await.unwrap();
        assert_eq!(server.line().await.as_deref(), Some("line"));
        sleep(Duration::from_millis(100)).await;
    }
    let pings = model.counts().pings;
    assert!(pings >= 1, "{pings}");
    server.end().await;
}

async fn launch_plain(launcher: &KubernetesLauncher) -> Result<LaunchedServer, LaunchError> {
    let options = PodOptions::new("image").init(Init::None);
    let spec = options.command("server", "cat").build().unwrap();
    launcher.launch(&spec, &LaunchContext::new()).await
}

fn attaches(model: &Model) -> u64 {
    let requests = model.counts().requests;
    requests.get("get pods/attach").copied().unwrap_or_default()
}

/// Without an init nothing else makes a launch attach while its kubelet says nothing.
#[tokio::test]
async fn a_launch_attaches_when_an_event_says_that_the_server_was_started() {
    let model = Model::start(V5);
    let launcher = model.launcher();
    model.refuse("say status", 1, 2);
    let silent = timeout(Duration::from_secs(3), launch_plain(&launcher)).await;
    assert!(silent.is_err(), "{silent:?}");
    assert_eq!(attaches(&model), 0);
    model.refuse("tell started", 1, 1);
    let launched = timeout(LIMIT, launch_plain(&launcher)).await;
    let mut parts = launched.expect("a launch in time").unwrap().into_parts();
    assert_eq!(attaches(&model), 1);
    let mut line = [0; 6];
    let read = timeout(LIMIT, parts.stdout.read_exact(&mut line)).await;
    read.expect("a line in time").unwrap();
    assert_eq!(&line, b"ready\n");
    parts.terminator.kill_now();
    timeout(LIMIT, parts.terminator.gone())
        .await
        .unwrap()
        .unwrap();
}

/// An attach that hangs does not hide what becomes of its pod.
#[tokio::test]
async fn a_pod_that_is_deleted_while_an_attach_hangs_ends_the_launch() {
    let model = Model::start(V5);
    let launcher = model.launcher();
    model.refuse("answer attach", 1, 100);
    let launching = tokio::spawn(async move { launch_plain(&launcher).await });
    let begun = Instant::now();
    while attaches(&model) == 0 {
        assert!(begun.elapsed() < LIMIT, "no attach");
        sleep(Duration::from_millis(50)).await;
    }
    let begun = Instant::now();
    let pods = model.ask(
        "GET /api/v1/namespaces/default/pods?labelSelector=dev.mcp-lifecycle.instance",
        "",
    );
    let pods: serde_json::Value = serde_json::from_str(&pods).unwrap();
    let name = pods["items"][0]["metadata"]["name"].as_str().unwrap();
    let grace = r#"{"gracePeriodSeconds": 5}"#;
    model.ask(
        &format!("DELETE /api/v1/namespaces/default/pods/{name}"),
        grace,
    );
    let failed = timeout(LIMIT, launching).await.unwrap().unwrap();
    let words = failed.unwrap_err().to_string();
    assert!(words.contains("deleted by a third party"), "{words}");
    // The attach would be waited for 30 s.
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
}

/// Without an init a refusal that comes after the attach is the end of the output: it says why.
#[tokio::test]
async fn a_session_that_breaks_says_why_on_standard_error() {
    let model = Model::start(V5);
    model.refuse("attach to it", 1, 1);
    let launched = launch_plain(&model.launcher()).await;
    let mut parts = launched.unwrap().into_parts();
    let mut words = String::new();
    let stderr = parts.stderr.as_mut().unwrap();
    let read = timeout(LIMIT, stderr.read_to_string(&mut words)).await;
    read.expect("an end of the output").unwrap();
    assert!(
        words.contains("broke: InternalError error attaching"),
        "{words}"
    );
    parts.terminator.kill_now();
    timeout(LIMIT, parts.terminator.gone())
        .await
        .unwrap()
        .unwrap();
}

/// The last that is told of a pod may be the first that is told of its end.
#[tokio::test]
async fn the_exit_is_known_that_is_told_with_the_deletion() {
    let model = Model::start(V5);
    let server = launch(&model.launcher()).await;
    model.refuse("say end", 1, 1);
    server.handle.kill_now();
    let exit = timeout(LIMIT, server.handle.exited()).await.unwrap();
    assert_eq!(exit, ExitStatus::Code(0));
    server.end().await;
}

/// Somebody else changes the pod at the same instant, again and again: its finalizer is taken
/// away all the same.
#[tokio::test]
async fn a_conflict_over_the_finalizer_is_not_the_end_of_trying() {
    let model = Model::start(V5);
    model.refuse("patch pods", 409, 3);
    let options = PodOptions::new("image").finalizer(true);
    let spec = options.command("server", "cat").build().unwrap();
    let launched = model.launcher().launch(&spec, &LaunchContext::new()).await;
    let parts = launched.unwrap().into_parts();
    parts.terminator.kill_now();
    let gone = timeout(LIMIT, parts.terminator.gone()).await;
    let counts = model.counts();
    gone.expect("a proof in time").unwrap();
    let times = |request: &str| counts.requests.get(request).copied().unwrap_or_default();
    assert_eq!((times("patch pods 409"), times("patch pods")), (3, 1));
    assert_eq!(counts.objects["pods"], 0);
}
