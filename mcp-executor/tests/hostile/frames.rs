//! Frames that cost more to read than to send, or never end.

use std::time::Duration;

use futures_util::SinkExt;
use mcp_lifecycle_core::launch::ServerSpecBuilder;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio_tungstenite::tungstenite::Message;

use crate::beside::{beside, flood, for_a_while, honest};
use crate::raw::{Raw, start};
use crate::support::{echo, launch, launcher, sh, without_haste};

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
            .map(|n| (format!("{}{n:04}", "a".repeat(28)), json!("v")))
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
        let (mut raw, _) = Raw::open(&peer.url).await;
        for text in [
            format!("{{\"id\":{zeros},\"method\":\"x\"}}"),
            format!("{{\"id\":1,\"error\":{{\"code\":1,\"data\":{zeros}}}}}"),
            format!("{{\"method\":\"x\",\"params\":{zeros}}}"),
        ] {
            raw.text(text).await;
            // It is read by the time that this is answered.
            raw.request("environment/status", json!({})).await.unwrap();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_any_length() {
    beside(async |peer| {
        let long = "n".repeat(50_000);
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
        let long = "n".repeat(8 << 20);
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
async fn nesting_without_end() {
    beside(async |peer| {
        let (mut raw, _) = Raw::open(&peer.url).await;
        for open in [
            "[",
            "{\"a\":",
            "{\"id\":1,\"method\":\"process/read\",\"params\":[",
        ] {
            raw.text(open.repeat(4_000_000 / open.len())).await;
            raw.request("environment/status", json!({})).await.unwrap();
        }
    })
    .await;
}

/// The head of a frame of `size` bytes and `sent` of them: the rest never comes.
async fn begin_frame(raw: &mut Raw, size: u64, sent: usize) {
    let stream = raw.socket.get_mut();
    let mut bytes = vec![0x81, 0x80 | 127];
    bytes.extend_from_slice(&size.to_be_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.resize(bytes.len() + sent, b' ');
    // The daemon need not take all of it.
    let write = stream.write_all(&bytes);
    let _ = tokio::time::timeout(Duration::from_millis(500), write).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_that_never_end_before_there_is_a_session() {
    beside(async |peer| {
        let mut open = Vec::new();
        for _ in 0..30 {
            let mut raw = Raw::connect(&peer.url).await;
            begin_frame(&mut raw, 15 << 20, 14 << 20).await;
            open.push(raw);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_that_never_end_in_many_sessions() {
    beside(async |peer| {
        let mut open = Vec::new();
        for _ in 0..20 {
            let (mut raw, _) = Raw::open(&peer.url).await;
            begin_frame(&mut raw, 15 << 20, 14 << 20).await;
            open.push(raw);
        }
        // Large frames under another token arrive all the same.
        let launcher = launcher(honest(&peer.url)).await;
        let large = |spec: ServerSpecBuilder, n| spec.env(format!("N{n}"), "x".repeat(100_000));
        let large = (0..6).fold(sh("exec cat"), large);
        let mut server = launch(&launcher, large).await;
        echo(&mut server, 500_000).await;
        server.end(&without_haste()).await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_over_the_limit_again_and_again() {
    beside(async |peer| {
        let (_first, again) = Raw::open_to_resume(&peer.url).await;
        for_a_while(async {
            loop {
                let (mut raw, _) = Raw::open_with(&peer.url, again.clone()).await;
                begin_frame(&mut raw, 1 << 40, 100).await;
                assert_eq!(raw.closed().await, Some(1009));
            }
        })
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_that_are_none_of_the_protocol() {
    flood(async |raw, _| {
        for text in [
            "",
            "{",
            "[]",
            "null",
            "{\"id\":{}}",
            "{\"id\":-1,\"result\":1}",
            "{\"method\":7}",
        ] {
            raw.text(text.to_owned()).await;
        }
        let binary = Message::binary(vec![0xff; 100]);
        raw.socket.send(binary).await.unwrap();
        raw.send(&"m".repeat(300), json!([])).await;
    })
    .await;
}
