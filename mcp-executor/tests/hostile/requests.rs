//! Requests without number.

use std::time::Duration;

use serde_json::json;

use crate::beside::{beside, flood, flood_after};
use crate::raw::{Raw, start};
use crate::support::Peer;

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
    flood(async |raw, _| {
        for _ in 0..500 {
            let path = json!({"path": "file:///etc/passwd"});
            raw.send("fs/getMetadata", path).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn starts_of_what_does_not_exist() {
    flood(async |raw, round| {
        for number in 0..200 {
            let params = start(&format!("p{round}-{number}"), &["/nothing/here"]);
            raw.send("process/start", params).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_are_started_and_ended_all_the_time() {
    flood(async |raw, round| {
        let mut answers = Vec::new();
        for number in 0..40 {
            let name = format!("p{round}-{number}");
            let sleeps = start(&name, &["sleep", "1000"]);
            raw.send("process/start", sleeps).await;
            let end = json!({"processId": name});
            answers.push(raw.send("process/terminate", end).await);
        }
        for answer in answers {
            let _ = raw.answer(answer).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_without_number() {
    beside(async |peer| {
        for argument in ["", "x", &"x".repeat(100_000)] {
            let quoted = format!("{argument:?}");
            let many = vec![&*quoted; 12_000_000 / (argument.len() + 3)].join(",");
            let params = format!(r#"{{"processId":"p","argv":[{many}],"cwd":"file:///"}}"#);
            let frame = format!(r#"{{"id":0,"method":"process/start","params":{params}}}"#);
            let (mut raw, _) = Raw::open(&peer.url).await;
            raw.text(frame).await;
            raw.answer(0).await.unwrap_err();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledgements_of_what_never_was() {
    let prepare = async |peer: &Peer| {
        let hello = json!({"clientName": "raw", "extensions": {"mcpLifecycle": {"version": 1}}});
        let (mut raw, _) = Raw::open_with(&peer.url, hello).await;
        let yes = start("p", &["yes"]);
        raw.request("process/start", yes).await.unwrap();
        raw
    };
    flood_after(prepare, async |raw, _| {
        for _ in 0..100 {
            for id in ["p", "q"] {
                let most = u64::MAX;
                let all = json!({"processId": id, "seq": most, "stdout": most, "stderr": most});
                raw.notify("process/ack", all).await;
            }
        }
    })
    .await;
}
