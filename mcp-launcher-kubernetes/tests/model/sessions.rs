//! Sessions with a kubelet that is slow, and with a host that is busy.

use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::time::sleep;

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
