//! Our client on a peer without our extensions: a daemon of ours, behind a proxy
//! that takes them away. `tests/codex.rs` has the same on codex.

use crate::frames::Frames;
use crate::prelude::*;

/// A server runs where it should, and is ended by the helper with all that it started.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_on_a_plain_peer_is_ended_with_all_that_it_started() {
    let peer = daemon(&[]).await;
    let proxy = Frames::plain(&peer.url).await;
    let launcher = launcher(ExecutorLauncher::websocket(&proxy.url)).await;
    let reach = launcher.semantics().containment.on_terminate;
    assert_eq!(reach, Reach::Marked, "the helper was started");
    let directory = tempfile::tempdir().unwrap();
    let mark = marker("plain");
    let script = format!("setsid sh -c 'pwd; sleep 1000; : {mark}' & exec cat");
    let mut server = launch(&launcher, sh(&script).cwd(directory.path())).await;
    assert_eq!(server.line().await, directory.path().to_str().unwrap());
    server.end(&at_once()).await.unwrap();
    assert_eq!(alive(&mark), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_falls_behind_gets_every_byte_all_the_same() {
    let peer = daemon(&[]).await;
    crate::lag::a_reader_that_falls_behind_gets_every_byte(&peer.url).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn output_that_the_peer_has_dropped_is_an_error_and_no_gap() {
    let peer = daemon(&[]).await;
    crate::lag::output_that_the_peer_has_dropped_is_an_error(&peer.url).await;
}
