//! The real codex client with our daemon: `codex app-server`, whose MCP server
//! runs on an environment of its `environments.toml`.
//!
//! `MCP_TEST_CODEX` names the codex binary; `tests/run codex` sets it.

#[path = "support/app_server.rs"]
mod app_server;
#[path = "support/proxy.rs"]
#[expect(dead_code, reason = "the other suites send bytes of their own")]
mod proxy;
mod support;

use std::sync::atomic::Ordering;
use std::time::Duration;

use app_server::AppServer;
use nix::sys::signal::Signal;
use proxy::{Mood, Proxy};
use support::{DAEMON, alive, daemon, echo_server, listen, marker, signal, vanished, within};

fn echo() -> String {
    echo_server().to_str().unwrap().to_owned()
}

/// A server that codex starts through a shell which leaves a helper behind.
fn messy(mark: &str) -> String {
    format!("setsid sh -c 'sleep 1000; : {mark}' & exec {} ", echo())
}

#[tokio::test(flavor = "multi_thread")]
async fn codex_lists_and_calls_tools_through_twenty_cuts_and_leaves_nothing() {
    let peer = daemon(&[]).await;
    let proxy = Proxy::before(&peer.url).await;
    let home = tempfile::tempdir().unwrap();
    let project = tempfile::tempdir().unwrap();
    std::fs::write(project.path().join("AGENTS.md"), "be brief").unwrap();
    let mark = marker("codex");
    let script = messy(&mark);
    let mut app = AppServer::start(home.path(), &proxy.url, "/bin/sh", &["-c", &script]).await;
    let thread = app.thread(project.path()).await;
    assert_eq!(app.tools(&thread).await, ["blob", "echo"]);
    for round in 0..20 {
        proxy.set(Mood::Cut);
        tokio::time::sleep(Duration::from_millis(20)).await;
        proxy.set(Mood::Fair);
        for call in 0..3 {
            let text = format!("{round}-{call}");
            assert_eq!(app.echo(&thread, &text).await.unwrap(), text);
        }
    }
    let connections = proxy.accepted.load(Ordering::Relaxed);
    assert!(connections > 20, "{connections} connections");
    assert!(!alive(&mark).is_empty(), "the helper runs");
    app.leave().await;
    // codex ends the servers that it started; what it does not, the lease does.
    vanished(&mark, Duration::from_secs(35)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn codex_calls_tools_over_a_link_that_is_late_slow_or_half_open() {
    let peer = daemon(&[]).await;
    let proxy = Proxy::before(&peer.url).await;
    let home = tempfile::tempdir().unwrap();
    let project = tempfile::tempdir().unwrap();
    let mut app = AppServer::start(home.path(), &proxy.url, &echo(), &[]).await;
    let thread = app.thread(project.path()).await;
    let late = Mood::Late(Duration::from_millis(50));
    for mood in [late, Mood::Crumbs, Mood::Fair] {
        proxy.set(mood);
        for call in 0..5 {
            let text = format!("{mood:?} {call}");
            assert_eq!(app.echo(&thread, &text).await.unwrap(), text);
        }
    }
    // What is on the way is lost, and nobody says so until it is cut.
    proxy.set(Mood::Mute);
    let call = app.echo(&thread, "half open");
    let heal = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        proxy.set(Mood::Cut);
        tokio::time::sleep(Duration::from_millis(20)).await;
        proxy.set(Mood::Fair);
    };
    let (answer, ()) = tokio::join!(call, heal);
    assert_eq!(answer.unwrap(), "half open");
    app.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_is_started_again_serves_codex_s_next_thread() {
    let mut peer = daemon(&[]).await;
    let address = peer.url.clone();
    let home = tempfile::tempdir().unwrap();
    let mut app = AppServer::start(home.path(), &address, &echo(), &[]).await;
    for round in 0..4 {
        let cwd = tempfile::tempdir().unwrap();
        let thread = app.thread(cwd.path()).await;
        let text = format!("round {round}");
        assert_eq!(within(app.echo(&thread, &text)).await.unwrap(), text);
        if round == 3 {
            break;
        }
        if round % 2 == 0 {
            peer.child.kill().await.unwrap();
        } else {
            signal(Signal::SIGTERM, peer.child.id().unwrap());
            within(peer.child.wait()).await.unwrap();
        }
        peer = listen(DAEMON, &["--listen", &address]).await;
        // It goes on trying to resume for its own recovery window.
        let lost = app.echo(&thread, "gone").await;
        assert!(lost.is_err(), "{lost:?}");
    }
    app.leave().await;
}
