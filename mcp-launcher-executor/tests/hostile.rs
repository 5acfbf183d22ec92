//! Clients that take more than their share, and an honest one beside them.

#[path = "support/raw.rs"]
mod raw;
mod support;

use std::time::{Duration, Instant};

use futures_util::SinkExt;
use mcp_launcher_executor::ExecServerConfig;
use mcp_lifecycle_core::{EndReason, TerminationPolicy};
use nix::sys::signal::Signal;
use raw::{Raw, start};
use serde_json::{Value, json};
use support::{Peer, Server, launch, launcher, listen, sh, signal, within};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::{Bytes, Message};

const DAEMON: &str = env!("CARGO_BIN_EXE_mcp-executor");

/// The most that the daemon may have in memory, in KiB.
const MOST_MEMORY: u64 = 128 << 10;

async fn daemon(lease: &str) -> Peer {
    listen(DAEMON, &["--listen", "ws://127.0.0.1:0", "--lease", lease]).await
}

/// The most memory that the daemon has ever had, in KiB.
fn peak(peer: &Peer) -> u64 {
    let pid = peer.child.id().unwrap();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    line.unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap()
}

/// Lets an honest client with a short lease work while somebody attacks: it
/// keeps its server, is answered, and the daemon stays small.
async fn beside(attack: impl AsyncFnOnce(&Peer)) {
    let peer = daemon("3").await;
    let launcher = launcher(ExecServerConfig::websocket(&peer.url)).await;
    let mut server = launch(&launcher, sh("exec cat")).await;
    let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
    let honest = tokio::spawn(async move {
        let mut took = Vec::new();
        while stopped.try_recv() != Ok(()) {
            let begun = Instant::now();
            server.stdin.write_all(b"ping\n").await.unwrap();
            assert_eq!(server.line().await, "ping");
            took.push(begun.elapsed());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let Server { handle, stdin, .. } = server;
        drop(stdin);
        let policy = TerminationPolicy::default();
        handle
            .terminate(&policy, EndReason::Shutdown)
            .await
            .unwrap();
        took
    });
    attack(&peer).await;
    stop.send(()).unwrap();
    let mut took = within(honest).await.unwrap();
    took.sort_unstable();
    let (calls, slowest) = (took.len(), took[took.len() - 1]);
    let p99 = took[calls * 99 / 100];
    eprintln!(
        "{calls} calls, p99 {p99:?}, slowest {slowest:?}; {} KiB",
        peak(&peer)
    );
    assert!(calls > 10, "{calls} calls");
    assert!(peak(&peer) < MOST_MEMORY, "{} KiB", peak(&peer));
    // Far above what it is, also without optimization on a machine with other
    // work, and far below the minute that starvation took.
    assert!(slowest < Duration::from_secs(10), "{slowest:?}");
}

/// Until this has passed, or the daemon has had enough.
async fn for_a_while(attack: impl Future<Output = ()>) {
    let _ = tokio::time::timeout(Duration::from_secs(4), attack).await;
}

async fn ping_for_ever(raw: &mut Raw) {
    loop {
        let ping = Message::Ping(Bytes::from_static(&[7; 120]));
        if raw.socket.feed(ping).await.is_err() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pings_that_nobody_reads_the_answers_of() {
    beside(async |peer| {
        let mut unknown = Raw::connect(&peer.url).await;
        let (mut known, _) = Raw::open(&peer.url).await;
        let both = async {
            tokio::join!(ping_for_ever(&mut unknown), ping_for_ever(&mut known));
        };
        for_a_while(both).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn patterns_without_number() {
    beside(async |peer| {
        let many = format!("[{}\"\"]", "\"\",".repeat(2_000_000));
        for _ in 0..3 {
            let mut raw = Raw::open(&peer.url).await.0;
            raw.text(format!(
                r#"{{"id":0,"method":"process/start","params":{{"processId":"p","argv":["true"],
                "cwd":"file:///","envPolicy":{{"inherit":"all","exclude":{many}}}}}}}"#
            ))
            .await;
            let error = raw.answer(0).await.unwrap_err();
            assert_eq!(error["code"], -32602, "{error}");
        }
        // As costly as is allowed.
        let patterns: Vec<String> = (0..17).map(|_| "*a".repeat(60)).collect();
        let set: serde_json::Map<String, Value> = (0..128)
            .map(|n| (format!("{}{n:04}", "a".repeat(250)), json!("v")))
            .collect();
        let (mut raw, _) = Raw::open(&peer.url).await;
        let mut ids = Vec::new();
        for number in 0..2 {
            let mut params = start(&format!("q{number}"), &["/bin/true"]);
            params["envPolicy"] = json!({"inherit": "none", "includeOnly": patterns, "set": set});
            ids.push(raw.send("process/start", params).await);
        }
        for id in ids {
            raw.answer(id).await.unwrap();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_that_grow_when_they_are_parsed() {
    beside(async |peer| {
        let zeros = format!("[{}0]", "0,".repeat(2_000_000));
        let nested = "[".repeat(8_000_000);
        for text in [
            format!("{{\"id\":{zeros},\"method\":\"x\"}}"),
            format!("{{\"id\":1,\"error\":{{\"code\":1,\"data\":{zeros}}}}}"),
            format!("{{\"method\":\"x\",\"params\":{zeros}}}"),
            nested,
        ] {
            let mut raw = Raw::connect(&peer.url).await;
            raw.text(text).await;
            // It is read by the time that this is answered.
            let hello = json!({"clientName": "raw"});
            raw.request("initialize", hello).await.unwrap();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_reads_that_wait_for_the_same_output() {
    beside(async |peer| {
        let mut clients = Vec::new();
        for _ in 0..4 {
            let (mut raw, _) = Raw::open(&peer.url).await;
            let script = "read line; head -c 250000 /dev/zero; sleep 1000";
            raw.request("process/start", start("p", &["/bin/sh", "-c", script]))
                .await
                .unwrap();
            let read = json!({"processId": "p", "afterSeq": 0, "waitMs": 60_000});
            for _ in 0..1000 {
                raw.send("process/read", read.clone()).await;
            }
            let go = json!({"processId": "p", "chunk": "Cg==", "writeId": "w"});
            raw.send("process/write", go).await;
            clients.push(raw);
        }
        // Nobody takes an answer.
        tokio::time::sleep(Duration::from_secs(3)).await;
        drop(clients);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn output_that_a_plain_client_never_takes_leaves_its_orders_heard() {
    beside(async |peer| {
        let (mut raw, _) = Raw::open(&peer.url).await;
        for number in 0..8 {
            let name = format!("p{number}");
            raw.send("process/start", start(&name, &["yes"])).await;
        }
        // The link is full of output by now; what the client says is heard all
        // the same, and it lives on for longer than its lease.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let dir = tempfile::tempdir().unwrap();
        let witness = dir.path().join("heard");
        let touch = format!("echo > {}", witness.display());
        raw.send("process/start", start("w", &["/bin/sh", "-c", &touch]))
            .await;
        within(async {
            while !witness.exists() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_writes_single_bytes() {
    beside(async |peer| {
        let (mut raw, _) = Raw::open(&peer.url).await;
        let script = "i=0; while :; do echo; done";
        for number in 0..2 {
            let params = start(&format!("p{number}"), &["/bin/sh", "-c", script]);
            raw.request("process/start", params).await.unwrap();
        }
        tokio::time::sleep(Duration::from_secs(4)).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_any_length() {
    beside(async |peer| {
        let long = "n".repeat(8 << 20);
        let mut raw = Raw::connect(&peer.url).await;
        let hello = json!({"clientName": long});
        let error = raw.request("initialize", hello).await.unwrap_err();
        assert_eq!(error["code"], -32602);
        let resume = json!({"clientName": "", "resumeSessionId": long});
        let error = raw.request("initialize", resume).await.unwrap_err();
        assert!(
            error.to_string().len() < 512,
            "{} bytes",
            error.to_string().len()
        );
        raw.request("initialize", json!({"clientName": ""}))
            .await
            .unwrap();
        raw.notify("initialized", json!({})).await;
        let error = raw.request(&long, json!({})).await.unwrap_err();
        assert!(
            error.to_string().len() < 512,
            "{} bytes",
            error.to_string().len()
        );
        tokio::time::sleep(Duration::from_millis(500)).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_requests_of_one_address_keep_nobody_out() {
    beside(async |peer| {
        let address = peer.url.trim_start_matches("ws://").to_owned();
        let mut half = std::collections::VecDeque::new();
        let mut admitted = 0;
        for number in 0..900 {
            let mut stream = TcpStream::connect(&address).await.unwrap();
            let _ = stream.write_all(b"GET / HTTP/1.1\r\n").await;
            half.push_back(stream);
            if half.len() > 400 {
                half.pop_front();
            }
            if number % 100 == 99 {
                let (mut raw, _) = Raw::open(&peer.url).await;
                raw.request("environment/status", json!({})).await.unwrap();
                admitted += 1;
            }
        }
        assert_eq!(admitted, 9);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_were_abandoned_without_a_process_give_their_places_back() {
    beside(async |peer| {
        let hello = json!({"clientName": "raw",
            "extensions": {"mcpLifecycle": {"version": 1, "leaseMs": 30_000}}});
        for _ in 0..255 {
            let mut raw = Raw::connect(&peer.url).await;
            let opened = raw.request("initialize", hello.clone()).await;
            if opened.is_err() {
                break;
            }
        }
        // All of them are there, and soon none of them is.
        within(async {
            loop {
                let mut raw = Raw::connect(&peer.url).await;
                if raw.request("initialize", hello.clone()).await.is_ok() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        })
        .await;
        let begun = Instant::now();
        for _ in 0..250 {
            let mut raw = Raw::connect(&peer.url).await;
            while raw.request("initialize", hello.clone()).await.is_err() {
                assert!(begun.elapsed() < Duration::from_secs(15), "still full");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    })
    .await;
}

/// A lease is about the silence of a client, not of its daemon.
#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_was_stopped_for_longer_than_the_lease_loses_nobody() {
    let peer = daemon("2").await;
    let launcher = launcher(ExecServerConfig::websocket(&peer.url)).await;
    let mut server = launch(&launcher, sh("exec cat")).await;
    let (mut raw, hello) = Raw::open(&peer.url).await;
    let pid = peer.child.id().unwrap();
    for round in 0..3 {
        signal(Signal::SIGSTOP, pid);
        for _ in 0..15 {
            tokio::time::sleep(Duration::from_millis(200)).await;
            raw.socket.send(Message::Ping(Bytes::new())).await.unwrap();
        }
        signal(Signal::SIGCONT, pid);
        let line = format!("{round}\n");
        server.stdin.write_all(line.as_bytes()).await.unwrap();
        assert_eq!(server.line().await, line.trim_end());
        raw.request("environment/status", json!({})).await.unwrap();
    }
    assert!(hello["sessionId"].is_string());
    server.end(&TerminationPolicy::default()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_carries_a_frame_in_more_than_half_a_lease_gets_there() {
    let peer = daemon("3").await;
    let address = peer.url.trim_start_matches("ws://").to_owned();
    let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", socket.local_addr().unwrap());
    let connections = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let count = std::sync::Arc::clone(&connections);
    tokio::spawn(async move {
        while let Ok((client, _)) = socket.accept().await {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let server = TcpStream::connect(&address).await.unwrap();
            let (client_read, client_write) = client.into_split();
            let (server_read, server_write) = server.into_split();
            tokio::spawn(slowly(client_read, server_write));
            tokio::spawn(slowly(server_read, client_write));
        }
    });
    let mut config = ExecServerConfig::websocket(&url);
    config.window = 128 << 10;
    let launcher = launcher(config).await;
    // 160 kB at 20 kB/s: several leases.
    let mut server = launch(&launcher, sh("head -c 160000 /dev/zero; echo; exec cat")).await;
    let mut output = Vec::new();
    let line = tokio::io::AsyncBufReadExt::read_until(&mut server.stdout, b'\n', &mut output);
    within(line).await.unwrap();
    assert_eq!(output.len(), 160_001);
    assert_eq!(connections.load(std::sync::atomic::Ordering::Relaxed), 1);
    server.end(&TerminationPolicy::default()).await.unwrap();
}

/// Passes 20 kB a second on, and holds hardly anything itself.
async fn slowly(mut from: tokio::net::tcp::OwnedReadHalf, mut to: tokio::net::tcp::OwnedWriteHalf) {
    use tokio::io::AsyncReadExt;
    let mut buffer = [0; 1000];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
