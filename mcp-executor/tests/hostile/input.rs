//! Input that no server reads.

use std::time::Duration;

use futures_util::SinkExt;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::beside::{beside, flood_after, for_a_while};
use crate::raw::{Raw, start};
use crate::support::Peer;

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
    let prepare = async |peer: &Peer| deaf(&peer.url, 1, 1).await.remove(0);
    flood_after(prepare, async |raw, _| {
        for _ in 0..50 {
            let write = json!({"processId": "p0", "chunk": "QUFB", "writeId": "same"});
            let again = start("p0", &["true"]);
            for (method, params) in [("process/start", again), ("process/write", write)] {
                let same = json!({"id": 1_000_000, "method": method, "params": params});
                raw.text(same.to_string()).await;
            }
        }
    })
    .await;
}
