//! A TCP proxy that does to a connection what networks do.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use mcp_launcher_executor::ExecutorLauncher;

use crate::support::{Peer, echo, launch, launcher, sh, within, without_haste};

/// The present behaviour of the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    /// Passes everything on.
    Fair,
    /// Passes it on in pieces of one byte.
    Crumbs,
    /// Passes it on late.
    Late(Duration),
    /// Passes nothing on and closes nothing.
    Mute,
    /// Accepts nobody and cuts everybody.
    Cut,
}

/// The mood, and how often it was to cut: a connection that does not get to look between a cut
/// and what comes after it is cut all the same.
#[derive(Debug, Clone, Copy)]
struct State {
    mood: Mood,
    cuts: u64,
}

pub(crate) struct Proxy {
    pub(crate) url: String,
    state: watch::Sender<State>,
    /// Connections accepted.
    pub(crate) accepted: Arc<AtomicU64>,
}

impl Proxy {
    pub(crate) async fn before(url: &str) -> Self {
        let target: SocketAddr = url.trim_start_matches("ws://").parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}", listener.local_addr().unwrap());
        let mood = Mood::Fair;
        let (state, current) = watch::channel(State { mood, cuts: 0 });
        let accepted = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&accepted);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let State { mood, cuts } = *current.borrow();
                if mood == Mood::Cut {
                    continue;
                }
                count.fetch_add(1, Ordering::Relaxed);
                let Ok(server) = TcpStream::connect(target).await else {
                    continue;
                };
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                let (client_read, client_write) = client.into_split();
                let (server_read, server_write) = server.into_split();
                tokio::spawn(pass(client_read, server_write, current.clone(), cuts));
                tokio::spawn(pass(server_read, client_write, current.clone(), cuts));
            }
        });
        Self {
            url,
            state,
            accepted,
        }
    }

    pub(crate) fn set(&self, mood: Mood) {
        self.state.send_modify(|state| {
            state.mood = mood;
            state.cuts += u64::from(mood == Mood::Cut);
        });
    }
}

/// Passes bytes on until a cut after the first `cuts`.
async fn pass(from: OwnedReadHalf, to: OwnedWriteHalf, state: watch::Receiver<State>, cuts: u64) {
    let mut watched = state.clone();
    tokio::select! {
        _ = watched.wait_for(|state| state.cuts != cuts) => {}
        () = carry(from, to, state) => {}
    }
}

async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut state: watch::Receiver<State>) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let mood = state.borrow_and_update().mood;
        // A connection that was mute once stays so: its bytes are lost.
        if mood == Mood::Mute {
            std::future::pending::<()>().await;
        }
        let read = tokio::select! {
            read = from.read(&mut buffer) => read,
            _ = state.changed() => continue,
        };
        let Ok(read @ 1..) = read else { return };
        // It may have changed while this task waited.
        let mood = state.borrow().mood;
        if let Mood::Late(delay) = mood {
            tokio::time::sleep(delay).await;
        }
        let size = if mood == Mood::Crumbs { 1 } else { read };
        for piece in buffer[..read].chunks(size) {
            if to.write_all(piece).await.is_err() {
                return;
            }
        }
    }
}

/// Sends data through `cat` over there while `trouble` happens, and compares.
pub(crate) async fn echo_under(peer: &Peer, size: u32, trouble: impl AsyncFn(&Proxy)) {
    let proxy = Proxy::before(&peer.url).await;
    echo_through(&proxy.url, size, trouble(&proxy)).await;
}

/// As [`echo_under`], through a proxy of any kind.
pub(crate) async fn echo_through(url: &str, size: u32, trouble: impl Future<Output = ()>) {
    let mut config = ExecutorLauncher::websocket(url);
    config.dead_after = Duration::from_secs(2);
    config.keep_alive = Duration::from_millis(500);
    let launcher = launcher(config).await;
    let mut server = launch(&launcher, sh("exec cat")).await;
    within(async { tokio::join!(echo(&mut server, size), trouble) }).await;
    server.end(&without_haste()).await.unwrap();
}
