//! Output and answers that nobody takes.

use std::time::Duration;

use serde_json::json;

use crate::beside::beside;
use crate::raw::{Raw, start};
use crate::support::within;

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
async fn events_of_many_servers_that_nobody_acknowledges() {
    beside(async |peer| {
        let hello = json!({"clientName": "raw",
            "extensions": {"mcpLifecycle": {"version": 1, "window": 1 << 30}}});
        let mut clients = Vec::new();
        for _ in 0..4 {
            let (mut raw, _) = Raw::open_with(&peer.url, hello.clone()).await;
            for number in 0..25 {
                let script = "yes; sleep 1000";
                let name = format!("p{number}");
                let params = start(&name, &["/bin/sh", "-c", script]);
                raw.send("process/start", params).await;
            }
            clients.push(raw);
        }
        tokio::time::sleep(Duration::from_secs(4)).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn output_that_is_kept_for_many_plain_clients() {
    beside(async |peer| {
        let mut clients = Vec::new();
        for _ in 0..10 {
            let (mut raw, _) = Raw::open(&peer.url).await;
            for number in 0..10 {
                let script = "head -c 1100000 /dev/zero; sleep 1000";
                let name = format!("p{number}");
                let params = start(&name, &["/bin/sh", "-c", script]);
                raw.send("process/start", params).await;
            }
            clients.push(raw);
        }
        // All of it is taken, and could be asked for again.
        let read = clients.iter_mut().map(async |raw| {
            loop {
                let _ = raw.read().await;
            }
        });
        let all = futures_util::future::join_all(read);
        let _ = tokio::time::timeout(Duration::from_secs(4), all).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_in_many_sessions_that_nobody_takes() {
    beside(async |peer| {
        let mut clients = Vec::new();
        for _ in 0..120 {
            let (mut raw, _) = Raw::open(&peer.url).await;
            let asking = async {
                loop {
                    raw.send("environment/info", json!({})).await;
                }
            };
            let _ = tokio::time::timeout(Duration::from_millis(60), asking).await;
            clients.push(raw);
        }
    })
    .await;
}
