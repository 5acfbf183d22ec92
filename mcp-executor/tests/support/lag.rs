//! Readers that fall far behind a plain peer, which does not hold back.

use std::sync::atomic::Ordering;
use std::time::Duration;

use mcp_launcher_executor::ExecutorLauncher;
use tokio::io::AsyncReadExt;

use crate::frames::Frames;
use crate::support::{Server, alive, at_once, launch, launcher, marker, sh, vanished, within};

const WINDOW: usize = 4096;

/// A server that says the numbers from 1 to `count`, in lines of ten bytes, and what
/// arrives of it has passed a proxy before this returns: nobody has read a byte.
async fn unread(url: &str, count: u32, mark: &str) -> (Frames, ExecutorLauncher, Server) {
    let proxy = Frames::plain(url).await;
    let mut config = ExecutorLauncher::websocket(&proxy.url);
    config.window = WINDOW;
    let launcher = launcher(config).await;
    let script = format!("seq -f %09.0f {count}; exec cat; : {mark}");
    let server = launch(&launcher, sh(&script)).await;
    // In base64.
    let all = u64::from(count) * 10 * 4 / 3;
    within(async {
        while proxy.passed.load(Ordering::Relaxed) < all {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    (proxy, launcher, server)
}

/// More than is buffered here, and less than the peer keeps.
pub(crate) async fn a_reader_that_falls_behind_gets_every_byte(url: &str) {
    let mark = marker("behind");
    let (proxy, _launcher, mut server) = unread(url, 70_000, &mark).await;
    assert_eq!(
        proxy.notable.load(Ordering::Relaxed),
        0,
        "nothing is read again yet"
    );
    for number in 1..=70_000 {
        assert_eq!(server.line().await, format!("{number:09}"));
    }
    assert!(
        proxy.notable.load(Ordering::Relaxed) > 0,
        "it was read again"
    );
    server.end(&at_once()).await.unwrap();
    assert_eq!(alive(&mark), Vec::<String>::new());
}

/// More than the peer keeps as well.
pub(crate) async fn output_that_the_peer_has_dropped_is_an_error(url: &str) {
    let mark = marker("dropped");
    let (_proxy, _launcher, mut server) = unread(url, 300_000, &mark).await;
    let mut bytes = Vec::new();
    let error = within(server.stdout.read_to_end(&mut bytes))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionAborted);
    let all: String = (1..=300_000).map(|n| format!("{n:09}\n")).collect();
    assert!(
        all.as_bytes().starts_with(&bytes),
        "something else is in it"
    );
    let _ended = vanished(&mark, Duration::from_secs(10)).await;
}
