//! Input that no server reads.

use std::time::Duration;

use futures_util::SinkExt;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::beside::{beside, for_a_while};
use crate::raw::{Raw, start};

/// Sessions with as many servers that read nothing.
async fn deaf(url: &str, sessions: usize, servers: usize) -> Vec<Raw> {
    let mut clients = Vec::new();
    for _ in 0..sessions {
        let (mut raw, _) = Raw::open(url).await;
        for number in 0..servers {
            let params = start(&format!("p{number}"), &["sleep", "1000"]);
            raw.request("process/start", params).await.unwrap();
        }
        clients.push(raw);
    }
    clients
}

#[tokio::test(flavor = "multi_thread")]
async fn input_that_is_held_for_many_servers() {
    beside(async |peer| {
        let chunk = "A".repeat(8 << 20);
        let mut clients = deaf(&peer.url, 4, 10).await;
        for raw in &mut clients {
            for number in 0..10 {
                let write =
                    json!({"processId": format!("p{number}"), "chunk": chunk, "writeId": "a"});
                let frame = json!({"id": number, "method": "process/write", "params": write});
                // What is too much is refused, and then not even read.
                let send = raw.socket.send(Message::text(frame.to_string()));
                let _ = tokio::time::timeout(Duration::from_secs(1), send).await;
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_of_nothing_under_ever_new_names() {
    beside(async |peer| {
        let mut clients = deaf(&peer.url, 2, 20).await;
        let mut number = 0_u64;
        for_a_while(async {
            loop {
                for raw in &mut clients {
                    for process in 0..20 {
                        number += 1;
                        let name = format!("{number:0250}");
                        let write = json!({"processId": format!("p{process}"), "chunk": "", "writeId": name});
                        raw.send("process/write", write).await;
                    }
                    raw.request("environment/status", json!({})).await.unwrap();
                    raw.early.clear();
                }
            }
        })
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_id_for_everything() {
    beside(async |peer| {
        let mut clients = deaf(&peer.url, 1, 1).await;
        let raw = &mut clients[0];
        for_a_while(async {
            loop {
                for _ in 0..50 {
                    let again = json!({"id": 1_000_000, "method": "process/start", "params": start("p0", &["true"])});
                    raw.text(again.to_string()).await;
                    let write = json!({"processId": "p0", "chunk": "QUFB", "writeId": "same"});
                    raw.text(json!({"id": 1_000_000, "method": "process/write", "params": write}).to_string())
                        .await;
                }
                raw.request("environment/status", json!({})).await.unwrap();
                raw.early.clear();
            }
        })
        .await;
    })
    .await;
}
