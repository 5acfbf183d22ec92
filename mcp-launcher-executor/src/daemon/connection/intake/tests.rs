use std::future::poll_fn;
use std::sync::Arc;

use mcp_launcher_local::LocalLauncher;
use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::*;
use crate::daemon::origin::Share;
use crate::daemon::{Daemon, Limits};
use crate::link::{Counted, WebSocketLink, websocket_config};

async fn link(stream: DuplexStream) -> WebSocketLink<DuplexStream> {
    let config = Some(websocket_config(16 << 20));
    let stream = Counted::new(stream);
    WebSocketLink::new(WebSocketStream::from_raw_socket(stream, Role::Server, config).await)
}

/// How a frame of a mebibyte fares that comes so many bytes a second; what of its
/// client's room it has then, and after it has been carried out.
async fn trickle(pace: usize) -> (Duration, Result<Option<Incoming>, End>, [usize; 2]) {
    let (mut client, stream) = duplex(64 * 1024);
    let mut link = link(stream).await;
    let daemon = Daemon::new(Arc::new(LocalLauncher::new()), Limits::default());
    let (id, of) = ("s".to_owned(), Share::User(0));
    let session = Session::new(id, &daemon.shared, None, None, None, of);
    let room = session.portion.room();
    let mut intake = Intake::default();
    intake.belongs_to(&session);
    tokio::spawn(async move {
        // Text, of eight bytes of length, masked with nothing.
        let mut head = vec![0x81, 0x80 | 127];
        head.extend((1_u64 << 20).to_be_bytes());
        head.extend([0; 4]);
        client.write_all(&head).await.unwrap();
        let mut left = 1 << 20;
        while left > 0 {
            let part = pace.min(left);
            left -= part;
            if client.write_all(&vec![b'x'; part]).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        std::future::pending::<()>().await;
    });
    let begun = Instant::now();
    let outcome = poll_fn(|cx| intake.poll(cx, &mut link, Some(&session))).await;
    let took = begun.elapsed();
    let taken = [(); 2].map(|()| {
        let taken = room - session.portion.room();
        intake.done();
        taken
    });
    (took, outcome, taken)
}

#[tokio::test(start_paused = true)]
async fn a_frame_may_be_slow_and_not_for_ever() {
    let (took, outcome, _) = trickle(8 * 1024).await;
    assert!(
        matches!(&outcome, Ok(Some(Incoming::Frame(frame))) if frame.len() == 1 << 20),
        "{took:?}"
    );
    let (took, outcome, _) = trickle(1024).await;
    assert!(outcome.is_err());
    assert!(took < Duration::from_secs(180), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_frame_counts_until_it_has_been_carried_out() {
    let (_, outcome, taken) = trickle(1 << 20).await;
    assert!(outcome.is_ok());
    assert!(
        taken[0] >= 2 * ((1 << 20) - FREE) && taken[1] == 0,
        "{taken:?}"
    );
}

/// A frame of so many bytes from a session of this share, of which these parts come, each
/// as soon as it is read and a second after the one before; how it fares, and after how long.
async fn frame_of<const N: usize>(
    session: Arc<Session>,
    size: usize,
    parts: [usize; N],
) -> (Duration, Result<Option<Incoming>, End>) {
    let (mut client, stream) = duplex(64 * 1024);
    let mut link = link(stream).await;
    let mut intake = Intake::default();
    intake.belongs_to(&session);
    let sender = tokio::spawn(async move {
        let mut head = vec![0x81, 0x80 | 127];
        head.extend((size as u64).to_be_bytes());
        head.extend([0; 4]);
        let _ = client.write_all(&head).await;
        for part in parts {
            let _ = client.write_all(&vec![b' '; part]).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        std::future::pending::<()>().await;
    });
    let begun = Instant::now();
    let outcome = poll_fn(|cx| intake.poll(cx, &mut link, Some(&session))).await;
    sender.abort();
    // As the connection says farewell before it goes.
    let took = begun.elapsed();
    tokio::time::sleep(Duration::from_millis(300)).await;
    (took, outcome)
}

/// Twenty clients of one share begin such a frame each, one every half second; so much
/// later one of them sends a frame of half a mebibyte. Whether it was read, and when.
async fn late_among_greedy(sent: usize, later: Duration) -> (Duration, bool) {
    let daemon = Daemon::new(Arc::new(LocalLauncher::new()), Limits::default());
    let of = |number: usize, kin: Option<&Session>| {
        let (id, of) = (number.to_string(), Share::User(0));
        Session::new(id, &daemon.shared, kin, None, None, of)
    };
    let first = of(0, None);
    let mut greedy = tokio::task::JoinSet::new();
    for number in 1..=20 {
        greedy.spawn(frame_of(of(number, Some(&first)), 15 << 20, [sent]));
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    tokio::time::sleep(later).await;
    let (took, outcome) = frame_of(of(21, Some(&first)), 500 << 10, [500 << 10]).await;
    (took, matches!(outcome, Ok(Some(Incoming::Frame(_)))))
}

#[tokio::test(start_paused = true)]
async fn a_small_frame_outlives_the_large_ones_of_its_share() {
    let mut cut = Vec::new();
    for sent in [14 << 20, 3 << 20, 2 << 20, 5 << 18] {
        for seconds in 0..15 {
            let later = Duration::from_secs(seconds);
            let (took, read) = late_among_greedy(sent, later).await;
            if !read || took > Duration::from_secs(30) {
                cut.push((sent, later, took));
            }
        }
    }
    assert!(cut.is_empty(), "{} of 60: {cut:?}", cut.len());
}

/// Two small frames of a share have no room; then there is some for the larger one, whose
/// client sends no more.
#[tokio::test(start_paused = true)]
async fn a_small_frame_hears_that_it_has_to_give_way() {
    let daemon = Daemon::new(Arc::new(LocalLauncher::new()), Limits::default());
    let of = |number: usize, kin: Option<&Session>| {
        let (id, of) = (number.to_string(), Share::User(0));
        Session::new(id, &daemon.shared, kin, None, None, of)
    };
    let larger = of(0, None);
    let smaller = of(1, Some(&larger));
    let taken = |session: &Session| {
        let mut taken = Grant::of(&session.portion);
        taken.set(Limits::default().max_memory);
        taken
    };
    let frames = [(&larger, 20 << 10), (&smaller, 1 << 10)].map(|(session, part)| {
        let frame = frame_of(Arc::clone(session), 1 << 20, [part, part, part]);
        tokio::spawn(tokio::time::timeout(Duration::from_secs(300), frame))
    });
    // A part of each has its room by now.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let (all, others) = (taken(&smaller), taken(&larger));
    tokio::time::sleep(Duration::from_secs(15)).await;
    drop(others);
    let [larger, smaller] = frames;
    let (took, outcome) = larger.await.unwrap().expect("the larger one is told");
    assert!(
        outcome.is_err() && took < Duration::from_secs(30),
        "{took:?}"
    );
    let (took, outcome) = smaller.await.unwrap().expect("the smaller one has an end");
    assert!(
        outcome.is_err() && took < Duration::from_secs(40),
        "{took:?}"
    );
    drop(all);
}
