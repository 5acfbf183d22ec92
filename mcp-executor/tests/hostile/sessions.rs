//! Sessions that are opened, resumed and guessed without number.

use std::time::Duration;

use serde_json::json;

use crate::beside::{beside, for_a_while};
use crate::raw::{Raw, start};

#[tokio::test(flavor = "multi_thread")]
async fn one_session_that_is_resumed_all_the_time() {
    beside(async |peer| {
        let hello = json!({"clientName": "raw", "extensions": {"mcpLifecycle": {"version": 1}}});
        let (mut raw, opened) = Raw::open_with(&peer.url, hello).await;
        for number in 0..10 {
            let params = start(&format!("p{number}"), &["yes"]);
            raw.request("process/start", params).await.unwrap();
        }
        let again = json!({"clientName": "raw", "resumeSessionId": opened["sessionId"]});
        let mut kept = std::collections::VecDeque::new();
        for_a_while(async {
            loop {
                kept.push_back(Raw::open_with(&peer.url, again.clone()).await);
                if kept.len() > 20 {
                    kept.pop_front();
                }
            }
        })
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn guesses_at_the_names_of_sessions() {
    beside(async |peer| {
        let mut raw = Raw::connect(&peer.url).await;
        for_a_while(async {
            for number in 0_u128.. {
                let guess = json!({"clientName": "", "resumeSessionId": format!("{number:036x}")});
                let error = raw.request("initialize", guess).await.unwrap_err();
                assert_eq!(error["data"]["kind"], "unknownSession");
            }
        })
        .await;
    })
    .await;
}

/// A client that lost its connection comes back however many others are there.
#[tokio::test(flavor = "multi_thread")]
async fn who_resumes_finds_a_place_among_all_that_there_may_be() {
    beside(async |peer| {
        let (mine, opened) = Raw::open(&peer.url).await;
        let mut others = Vec::new();
        for _ in 0..300 {
            let mut raw = Raw::connect(&peer.url).await;
            let hello = json!({"clientName": "raw"});
            let id = raw.send("initialize", hello).await;
            let _ = tokio::time::timeout(Duration::from_millis(300), raw.answer_or_end(id)).await;
            others.push(raw);
        }
        drop(mine);
        let again = json!({"clientName": "raw", "resumeSessionId": opened["sessionId"]});
        let (mut raw, _) = Raw::open_with(&peer.url, again).await;
        raw.request("environment/status", json!({})).await.unwrap();
    })
    .await;
}
