//! A daemon that stands still, and a link that nearly does.

use std::time::Duration;

use futures_util::SinkExt;
use nix::sys::signal::Signal;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::{Bytes, Message};

use crate::beside::{daemon, honest};
use crate::raw::Raw;
use crate::support::{launch, launcher, sh, signal, within, without_haste};

/// A lease is about the silence of a client, not of its daemon.
#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_was_stopped_for_longer_than_the_lease_loses_nobody() {
    let peer = daemon("2").await;
    let launcher = launcher(honest(&peer.url)).await;
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
    server.end(&without_haste()).await.unwrap();
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
    let mut config = honest(&url);
    config.window = 128 << 10;
    let launcher = launcher(config).await;
    // 160 kB at 20 kB/s: several leases.
    let mut server = launch(&launcher, sh("head -c 160000 /dev/zero; echo; exec cat")).await;
    let mut output = Vec::new();
    let line = tokio::io::AsyncBufReadExt::read_until(&mut server.stdout, b'\n', &mut output);
    within(line).await.unwrap();
    assert_eq!(output.len(), 160_001);
    assert_eq!(connections.load(std::sync::atomic::Ordering::Relaxed), 1);
    server.end(&without_haste()).await.unwrap();
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
