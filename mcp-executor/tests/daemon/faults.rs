//! Faults of networks, and crashes, between our client and our daemon, and
//! between our client and codex's.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::net::TcpListener;

use crate::frames::Frames;
use crate::prelude::*;
use crate::proxy::{Mood, Proxy, echo_through, echo_under};

async fn cuts(proxy: &Proxy) {
    let mut cuts = 0;
    while cuts < 8 || proxy.accepted.load(Ordering::Relaxed) < 4 {
        tokio::time::sleep(Duration::from_millis(40)).await;
        proxy.set(Mood::Cut);
        tokio::time::sleep(Duration::from_millis(20)).await;
        proxy.set(Mood::Fair);
        cuts += 1;
    }
}

/// Of the proxy itself: a cut is one also where no connection had the time to see it.
#[tokio::test]
async fn a_cut_that_is_over_at_once_cuts_all_the_same() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = Proxy::before(&format!("ws://{}", listener.local_addr().unwrap())).await;
    let near = TcpStream::connect(proxy.url.trim_start_matches("ws://"));
    let mut near = within(near).await.unwrap();
    let (mut far, _) = within(listener.accept()).await.unwrap();
    near.write_all(b"x").await.unwrap();
    within(far.read_exact(&mut [0])).await.unwrap();
    proxy.set(Mood::Mute);
    near.write_all(b"y").await.unwrap();
    proxy.set(Mood::Cut);
    proxy.set(Mood::Fair);
    let read = within(far.read(&mut [0])).await;
    assert_eq!(read.unwrap_or(0), 0, "it was not cut");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_cut_again_and_again_loses_and_repeats_nothing() {
    let peer = daemon(&[]).await;
    echo_under(&peer, 20_000_000, async |proxy: &Proxy| {
        cuts(proxy).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_out_of_order_twice_and_over_many_connections_lose_and_repeat_nothing() {
    let peer = daemon(&[]).await;
    let proxy = Frames::shuffled(&peer.url).await;
    echo_through(&proxy.url, 5_000_000, async {}).await;
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (connections, overtaken) = (count(&proxy.connections), count(&proxy.notable));
    assert!(
        connections > 3 && overtaken > 3,
        "{connections} connections, {overtaken} overtaken"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_arrive_one_at_a_time_arrive() {
    let peer = daemon(&[]).await;
    echo_under(&peer, 60_000, async |proxy: &Proxy| proxy.set(Mood::Crumbs)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_arrive_late_arrive() {
    let peer = daemon(&[]).await;
    let late = Mood::Late(Duration::from_millis(20));
    echo_under(&peer, 500_000, async |proxy: &Proxy| proxy.set(late)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_half_open_connection_is_noticed_and_replaced() {
    let peer = daemon(&[]).await;
    echo_under(&peer, 30_000_000, async |proxy: &Proxy| {
        tokio::time::sleep(Duration::from_millis(50)).await;
        proxy.set(Mood::Mute);
        tokio::time::sleep(Duration::from_millis(50)).await;
        // New connections are fine; the old one never says a word again.
        proxy.set(Mood::Fair);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vanished_client_s_servers_end_with_the_lease() {
    let lease = Duration::from_secs(2);
    let peer = daemon(&["--lease", "2"]).await;
    let proxy = Proxy::before(&peer.url).await;
    let launcher = launcher(ExecutorLauncher::websocket(&proxy.url)).await;
    let mark = marker("lease");
    // It ignores every request to leave.
    let script = format!("trap '' TERM; echo up; while :; do sleep 0.1; done; : {mark}");
    let mut server = launch(&launcher, sh(&script)).await;
    assert_eq!(server.line().await, "up");
    proxy.set(Mood::Mute);
    let took = vanished(&mark, lease + Duration::from_secs(20)).await;
    eprintln!("vanished client to empty tree: {took:?}, the lease is {lease:?}");
    assert!(took > lease / 2, "{took:?}: before the lease was over");
    proxy.set(Mood::Cut);
    // What the owner is told is that it cannot be known.
    let policy = TerminationPolicy::immediate().kill_confirmation(Duration::from_secs(3));
    let outcome = within(server.handle.terminate(&policy, EndReason::Shutdown)).await;
    assert!(outcome.is_err(), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_comes_back_within_the_lease_loses_nothing() {
    let peer = daemon(&["--lease", "5"]).await;
    let proxy = Proxy::before(&peer.url).await;
    let launcher = launcher(ExecutorLauncher::websocket(&proxy.url)).await;
    let mut server = launch(&launcher, sh("while read l; do echo \"got $l\"; done")).await;
    server.stdin.write_all(b"one\n").await.unwrap();
    assert_eq!(server.line().await, "got one");
    proxy.set(Mood::Cut);
    server.stdin.write_all(b"two\n").await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    proxy.set(Mood::Fair);
    assert_eq!(server.line().await, "got two");
    server.end(&without_haste()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_had_not_arrived_when_the_link_was_cut_arrives_within_the_lease() {
    let peer = daemon(&[]).await;
    let proxy = Proxy::before(&peer.url).await;
    // Nothing runs yet.
    let launcher = launcher(ExecutorLauncher::websocket(&proxy.url)).await;
    proxy.set(Mood::Cut);
    let again = async {
        tokio::time::sleep(Duration::from_secs(6)).await;
        proxy.set(Mood::Fair);
    };
    let (mut server, ()) = tokio::join!(launch(&launcher, sh("echo up; exec cat")), again);
    assert_eq!(server.line().await, "up");
    server.end(&without_haste()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_and_hostile_frames_do_not_take_the_daemon_down() {
    let mut peer = daemon(&[]).await;
    let mut child = tokio::process::Command::new(DAEMON)
        .arg("--stdio")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let deep = "[".repeat(100_000);
    let frames = [
        "",
        "{",
        "null",
        "[]",
        "\u{0}",
        "{\"id\":1}",
        "{\"id\":{},\"method\":\"x\"}",
        r#"{"id":1,"method":"process/start","params":{}}"#,
        r#"{"id":-1,"method":"initialize","params":7}"#,
        r#"{"id":2,"method":"initialize","params":{"clientName":"x","extensions":{"mcpLifecycle":{"version":1,"window":0,"leaseMs":18446744073709551615}}}}"#,
        r#"{"method":"initialized","params":{}}"#,
        r#"{"id":3,"method":"process/start","params":{"processId":"p","argv":["a\u0000b"],"cwd":"file:///"}}"#,
        r#"{"id":4,"method":"process/write","params":{"processId":"p","chunk":"%%%"}}"#,
        r#"{"method":"process/ack","params":{"processId":"p","seq":18446744073709551615}}"#,
        deep.as_str(),
        r#"{"id":9,"method":"session/ping","params":{}}"#,
    ];
    for frame in frames {
        stdin.write_all(frame.as_bytes()).await.unwrap();
        stdin.write_all(b"\n").await.unwrap();
    }
    let mut answers = String::new();
    let mut buffer = [0; 4096];
    while !answers.contains(r#"{"id":9,"result""#) {
        let read = within(stdout.read(&mut buffer)).await.unwrap();
        assert!(read > 0, "the daemon is gone: {answers}");
        answers.push_str(&String::from_utf8_lossy(&buffer[..read]));
    }
    // And raw bytes instead of a WebSocket.
    let address = peer.url.trim_start_matches("ws://").to_owned();
    for garbage in [
        &b"\xff\xfe\x00\r\n\r\n"[..],
        b"GET / HTTP/1.1\r\n",
        &[b'a'; 100_000],
    ] {
        let mut stream = tokio::net::TcpStream::connect(&address).await.unwrap();
        let _ = stream.write_all(garbage).await;
    }
    let launcher = launcher(ExecutorLauncher::websocket(&peer.url)).await;
    let server = within(launch(&launcher, sh("exec cat"))).await;
    within(server.end(&without_haste())).await.unwrap();
    assert!(peer.child.try_wait().unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_opens_and_its_absence_does_not() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "0123456789abcdef0123").unwrap();
    let path = file.path().to_str().unwrap();
    let peer = listen(
        DAEMON,
        &["--listen", "ws://127.0.0.1:0", "--token-file", path],
    )
    .await;
    let config = ExecutorLauncher::websocket(&peer.url);
    let refused = ExecutorLauncher::connect(config.clone()).await;
    assert!(refused.is_err());
    let wrong = config.clone().token("0123456789abcdef0124");
    assert!(ExecutorLauncher::connect(wrong).await.is_err());
    let right = launcher(config.token("0123456789abcdef0123")).await;
    let server = launch(&right, sh("exec cat")).await;
    server.end(&without_haste()).await.unwrap();
}

/// The answer to a request to leave is lost: it is asked for again, and the server is not.
#[tokio::test(flavor = "multi_thread")]
async fn a_signal_that_is_repeated_after_a_resume_is_sent_once() {
    let peer = daemon(&[]).await;
    let proxy = Proxy::before(&peer.url).await;
    let executor = ExecutorLauncher::connect(ExecutorLauncher::websocket(&proxy.url)).await;
    let directory = tempfile::tempdir().unwrap();
    let asked = directory.path().join("asked");
    let script = format!(
        "trap 'echo asked | tee -a {}' TERM; echo up; \
         while :; do if read l; then echo \"$l\"; else sleep 0.01; fi; done",
        asked.display()
    );
    let spec = sh(&script).build().unwrap();
    let started = executor.unwrap().launch(&spec, &LaunchContext::new()).await;
    let started = started.unwrap();
    let started = started.into_parts();
    let mut lines = BufReader::new(started.stdout).lines();
    assert_eq!(within(lines.next_line()).await.unwrap().unwrap(), "up");
    proxy.set(Mood::Late(Duration::from_secs(8)));
    let cut = async {
        // It was asked; that it was arrives too late.
        while !asked.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        proxy.set(Mood::Cut);
        tokio::time::sleep(Duration::from_millis(200)).await;
        proxy.set(Mood::Fair);
    };
    let signal = started.terminator.request_end();
    let (signalled, ()) = within(async { tokio::join!(signal, cut) }).await;
    signalled.unwrap();
    assert!(proxy.accepted.load(Ordering::Relaxed) > 1, "it was resumed");
    // What a second one made it say would come before this.
    let mut stdin = started.stdin;
    stdin.write_all(b"end\n").await.unwrap();
    for line in ["asked", "end"] {
        assert_eq!(within(lines.next_line()).await.unwrap().unwrap(), line);
    }
    // Another one is another one.
    started.terminator.request_end().await.unwrap();
    assert_eq!(within(lines.next_line()).await.unwrap().unwrap(), "asked");
    started.terminator.force_end().await.unwrap();
    started.terminator.gone().await.unwrap();
}
