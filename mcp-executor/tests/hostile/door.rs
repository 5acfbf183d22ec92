//! Connections that never come in.

use std::collections::VecDeque;

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::beside::{beside, for_a_while};
use crate::raw::Raw;

#[tokio::test(flavor = "multi_thread")]
async fn half_requests_of_one_address_keep_nobody_out() {
    beside(async |peer| {
        let address = peer.url.trim_start_matches("ws://").to_owned();
        let mut half = VecDeque::new();
        let (_first, again) = Raw::open_to_resume(&peer.url).await;
        for_a_while(async {
            loop {
                for _ in 0..100 {
                    let mut stream = TcpStream::connect(&address).await.unwrap();
                    let _ = stream.write_all(b"GET / HTTP/1.1\r\n").await;
                    half.push_back(stream);
                    if half.len() > 400 {
                        half.pop_front();
                    }
                }
                let (mut raw, _) = Raw::open_with(&peer.url, again.clone()).await;
                raw.request("environment/status", json!({})).await.unwrap();
            }
        })
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_never_say_who_they_are() {
    beside(async |peer| {
        let mut silent = VecDeque::new();
        let (_first, again) = Raw::open_to_resume(&peer.url).await;
        for_a_while(async {
            loop {
                for _ in 0..50 {
                    silent.push_back(Raw::connect(&peer.url).await);
                    if silent.len() > 300 {
                        silent.pop_front();
                    }
                }
                let (mut raw, _) = Raw::open_with(&peer.url, again.clone()).await;
                raw.request("environment/status", json!({})).await.unwrap();
            }
        })
        .await;
    })
    .await;
}
