//! Requests without number.

use std::time::Duration;

use serde_json::json;

use crate::beside::{beside, for_a_while};
use crate::raw::{Raw, start};

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_wait_in_many_sessions() {
    beside(async |peer| {
        let mut clients = Vec::new();
        for _ in 0..60 {
            let (mut raw, _) = Raw::open(&peer.url).await;
            let sleeps = start("p", &["sleep", "1000"]);
            raw.request("process/start", sleeps).await.unwrap();
            for _ in 0..1024 {
                let read = json!({"processId": "p", "afterSeq": 0, "waitMs": 60_000});
                raw.send("process/read", read).await;
            }
            clients.push(raw);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn looks_at_files_without_number() {
    beside(async |peer| {
        let (mut raw, _) = Raw::open(&peer.url).await;
        for_a_while(async {
            loop {
                for _ in 0..500 {
                    raw.send("fs/getMetadata", json!({"path": "file:///etc/passwd"}))
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

#[tokio::test(flavor = "multi_thread")]
async fn starts_of_what_does_not_exist() {
    beside(async |peer| {
        let (mut raw, _) = Raw::open(&peer.url).await;
        let mut number = 0;
        for_a_while(async {
            loop {
                for _ in 0..200 {
                    number += 1;
                    let params = start(&format!("p{number}"), &["/nothing/here"]);
                    raw.send("process/start", params).await;
                }
                raw.request("environment/status", json!({})).await.unwrap();
                raw.early.clear();
            }
        })
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_are_started_and_ended_all_the_time() {
    beside(async |peer| {
        let (mut raw, _) = Raw::open(&peer.url).await;
        let mut number = 0;
        for_a_while(async {
            loop {
                let mut answers = Vec::new();
                for _ in 0..40 {
                    number += 1;
                    let name = format!("p{number}");
                    raw.send("process/start", start(&name, &["sleep", "1000"]))
                        .await;
                    let end = json!({"processId": name});
                    answers.push(raw.send("process/terminate", end).await);
                }
                for answer in answers {
                    let _ = raw.answer(answer).await;
                }
                raw.early.clear();
            }
        })
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_without_number() {
    beside(async |peer| {
        let (mut raw, _) = Raw::open(&peer.url).await;
        for argument in ["", "x", &"x".repeat(100_000)] {
            let many = 12_000_000 / (argument.len() + 3);
            let mut params = start("p", &["/bin/true"]);
            params["argv"] = vec![argument; many].into();
            assert!(raw.request("process/start", params).await.is_err());
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledgements_of_what_never_was() {
    beside(async |peer| {
        let hello = json!({"clientName": "raw", "extensions": {"mcpLifecycle": {"version": 1}}});
        let (mut raw, _) = Raw::open_with(&peer.url, hello).await;
        raw.request("process/start", start("p", &["yes"])).await.unwrap();
        for_a_while(async {
            loop {
                for _ in 0..100 {
                    for id in ["p", "q"] {
                        let all = json!({"processId": id, "seq": u64::MAX, "stdout": u64::MAX, "stderr": u64::MAX});
                        raw.notify("process/ack", all).await;
                    }
                }
                raw.request("session/ping", json!({})).await.unwrap();
                raw.early.clear();
            }
        })
        .await;
    })
    .await;
}
