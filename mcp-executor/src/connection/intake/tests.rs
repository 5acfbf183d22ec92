use std::future::poll_fn;
use std::sync::Arc;

use mcp_launcher_local::LocalLauncher;
use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::*;
use crate::link::{Counted, WebSocketLink, websocket_config};
use crate::origin::Share;
use crate::{Daemon, Limits};

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
    let session = Session::new("s".to_owned(), &daemon.shared, None, Share::Open);
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
    assert!(taken[0] >= (1 << 20) - FREE && taken[1] == 0, "{taken:?}");
}

/// What has been sent of a large frame stands still, and gives its room back.
#[tokio::test(start_paused = true)]
async fn a_large_frame_that_stands_still_is_cut_off() {
    let daemon = Daemon::new(Arc::new(LocalLauncher::new()), Limits::default());
    let session = Session::new("s".to_owned(), &daemon.shared, None, Share::Open);
    let (mut client, stream) = duplex(64 * 1024);
    let mut link = link(stream).await;
    let mut intake = Intake::default();
    intake.belongs_to(&session);
    tokio::spawn(async move {
        let mut head = vec![0x81, 0x80 | 127];
        head.extend((15_u64 << 20).to_be_bytes());
        head.extend([0; 4]);
        client.write_all(&head).await.unwrap();
        let _ = client.write_all(&vec![b' '; 14 << 20]).await;
        std::future::pending::<()>().await;
    });
    let room = session.portion.room();
    let begun = Instant::now();
    let outcome = poll_fn(|cx| intake.poll(cx, &mut link, Some(&session))).await;
    assert!(outcome.is_err());
    assert_eq!(begun.elapsed().as_secs(), PATIENCE.as_secs());
    assert!(room - session.portion.room() > 13 << 20);
    drop(intake);
    assert_eq!(session.portion.room(), room);
}

#[tokio::test(start_paused = true)]
async fn a_large_frame_without_room_waits_for_it_and_not_for_ever() {
    for (given_back, outcome) in [(5, true), (60, false)] {
        let daemon = Daemon::new(Arc::new(LocalLauncher::new()), Limits::default());
        let of = |id: &str| Session::new(id.to_owned(), &daemon.shared, None, Share::Open);
        let [session, one, other] = ["s", "1", "2"].map(of);
        let others = [one, other].map(|it| {
            let mut grant = Grant::of(&it.portion);
            grant.set(it.portion.room());
            grant
        });
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(given_back)).await;
            drop(others);
        });
        let (took, came) = whole_frame(&session).await;
        assert_eq!(came, outcome);
        assert_eq!(took.as_secs(), given_back.min(PATIENCE.as_secs()));
    }
}

/// How long a frame of a mebibyte takes that is sent at once, and whether it comes.
async fn whole_frame(session: &Arc<Session>) -> (Duration, bool) {
    let (mut client, stream) = duplex(64 * 1024);
    let mut link = link(stream).await;
    let mut intake = Intake::default();
    intake.belongs_to(session);
    tokio::spawn(async move {
        let mut head = vec![0x81, 0x80 | 127];
        head.extend((1_u64 << 20).to_be_bytes());
        head.extend([0; 4]);
        client.write_all(&head).await.unwrap();
        let _ = client.write_all(&vec![b' '; 1 << 20]).await;
        std::future::pending::<()>().await;
    });
    let begun = Instant::now();
    let outcome = poll_fn(|cx| intake.poll(cx, &mut link, Some(session))).await;
    let came = matches!(outcome, Ok(Some(Incoming::Frame(_))));
    (begun.elapsed(), came)
}

#[tokio::test(start_paused = true)]
async fn a_session_that_had_its_frames_is_read_when_the_next_is_due() {
    let limits = Limits {
        max_frames_per_session_and_second: 10,
        ..Limits::default()
    };
    let daemon = Daemon::new(Arc::new(LocalLauncher::new()), limits);
    let session = Session::new("s".to_owned(), &daemon.shared, None, Share::Open);
    let (mut client, stream) = duplex(64 * 1024);
    let mut link = link(stream).await;
    let mut intake = Intake::default();
    intake.belongs_to(&session);
    // Thirty frames of text: the head, its mask and a byte.
    let frames = [0x81, 0x80 | 1, 0, 0, 0, 0, b'x'].repeat(30);
    client.write_all(&frames).await.unwrap();
    let begun = Instant::now();
    for _ in 0..30 {
        let frame = poll_fn(|cx| intake.poll(cx, &mut link, Some(&session))).await;
        assert!(matches!(frame, Ok(Some(Incoming::Frame(_)))));
    }
    let took = begun.elapsed();
    assert!((1900..2000).contains(&took.as_millis()), "{took:?}");
}
