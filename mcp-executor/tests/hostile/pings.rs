//! Signs of life without number.

use futures_util::SinkExt;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::{Bytes, Message};

use crate::beside::{beside, for_a_while};
use crate::raw::Raw;

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

async fn ping_for_ever(raw: &mut Raw) {
    loop {
        let ping = Message::Ping(Bytes::from_static(&[7; 120]));
        if raw.socket.feed(ping).await.is_err() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pieces_of_nothing_between_pings() {
    beside(async |peer| {
        let (mut raw, _) = Raw::open(&peer.url).await;
        let piece =
            |kind, last| Message::Frame(Frame::message(Bytes::new(), OpCode::Data(kind), last));
        for_a_while(async {
            let _ = raw.socket.feed(piece(Data::Text, false)).await;
            loop {
                let _ = raw.socket.feed(piece(Data::Continue, false)).await;
                let pong = Message::Pong(Bytes::from_static(&[7; 100]));
                if raw.socket.feed(pong).await.is_err() {
                    return;
                }
            }
        })
        .await;
    })
    .await;
}
