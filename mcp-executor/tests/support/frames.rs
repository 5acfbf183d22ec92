//! Proxies of frames, which change what is said and not only how it gets there.
#![allow(
    clippy::allow_attributes,
    dead_code,
    reason = "each suite uses its part of this module"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, accept_async, client_async};

type Socket = WebSocketStream<TcpStream>;

/// Frames of the daemon until the connection is broken.
const FRAMES: u64 = 12;

/// How long a frame is held back for one to overtake it.
const HELD: Duration = Duration::from_millis(5);

pub(crate) struct Frames {
    pub(crate) url: String,
    /// Connections so far.
    pub(crate) connections: Arc<AtomicU64>,
    /// Frames that were overtaken, or reads that were asked for.
    pub(crate) notable: Arc<AtomicU64>,
    /// Bytes of frames that were passed to the client.
    pub(crate) passed: Arc<AtomicU64>,
}

impl Frames {
    /// Makes trouble within the protocol: what the daemon says of processes comes
    /// out of order and twice, what the client writes comes twice, and now and
    /// then the connection breaks in the middle.
    pub(crate) async fn shuffled(url: &str) -> Self {
        Self::before(url, |client, server, notable, _| {
            shuffle(client, server, notable)
        })
        .await
    }

    /// Makes a peer without extensions of any.
    pub(crate) async fn plain(url: &str) -> Self {
        Self::before(url, simplify).await
    }

    async fn before<F: Future<Output = ()> + Send + 'static>(
        url: &str,
        pass: impl Fn(Socket, Socket, Arc<AtomicU64>, Arc<AtomicU64>) -> F + Send + 'static,
    ) -> Self {
        let (url, target) = (url.to_owned(), url.trim_start_matches("ws://").to_owned());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Self {
            url: format!("ws://{}", listener.local_addr().unwrap()),
            connections: Arc::default(),
            notable: Arc::default(),
            passed: Arc::default(),
        };
        let connections = Arc::clone(&proxy.connections);
        let (notable, passed) = (Arc::clone(&proxy.notable), Arc::clone(&proxy.passed));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::Relaxed);
                let server = TcpStream::connect(&target).await.unwrap();
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                let client = accept_async(client).await.unwrap();
                let (server, _) = client_async(&url, server).await.unwrap();
                let (notable, passed) = (Arc::clone(&notable), Arc::clone(&passed));
                tokio::spawn(pass(client, server, notable, passed));
            }
        });
        proxy
    }
}

/// Returns whether it is a message of this method, or raw output of a process.
fn is(message: &Message, method: &str) -> bool {
    match message {
        Message::Text(text) => text.contains(method),
        message => message.is_binary() && "\"process/output\"".starts_with(method),
    }
}

/// Dropping the streams breaks both connections.
async fn shuffle(client: Socket, server: Socket, overtakes: Arc<AtomicU64>) {
    let (mut to_client, mut of_client) = client.split();
    let (mut to_server, mut of_server) = server.split();
    let up = async {
        while let Some(Ok(message)) = of_client.next().await {
            let twice = is(&message, "\"process/write\"");
            if twice && to_server.send(message.clone()).await.is_err() {
                return;
            }
            if to_server.send(message).await.is_err() {
                return;
            }
        }
    };
    let down = async {
        for _ in 0..FRAMES {
            let Some(Ok(first)) = of_server.next().await else {
                return;
            };
            let mut out = vec![first];
            if is(&out[0], "\"process/") {
                // The next one overtakes it, and it comes twice.
                out.push(out[0].clone());
                if let Ok(Some(Ok(next))) = timeout(HELD, of_server.next()).await {
                    overtakes.fetch_add(1, Ordering::Relaxed);
                    out.insert(0, next);
                }
            }
            for message in out {
                if to_client.send(message).await.is_err() {
                    return;
                }
            }
        }
    };
    tokio::select! {
        () = up => {}
        () = down => {}
    }
}

async fn simplify(
    mut client: Socket,
    mut server: Socket,
    reads: Arc<AtomicU64>,
    passed: Arc<AtomicU64>,
) {
    loop {
        let sent = tokio::select! {
            Some(Ok(message)) = client.next() => {
                let mut value = value(&message);
                reads.fetch_add(u64::from(value["method"] == "process/read"), Ordering::Relaxed);
                if value["method"] == "initialize" {
                    value["params"].as_object_mut().unwrap().remove("extensions");
                    server.send(Message::text(value.to_string())).await
                } else {
                    server.send(message).await
                }
            }
            Some(Ok(message)) = server.next() => {
                passed.fetch_add(message.len() as u64, Ordering::Relaxed);
                client.send(message).await
            }
            else => return,
        };
        if sent.is_err() {
            return;
        }
    }
}

fn value(message: &Message) -> Value {
    let text = message.to_text().unwrap_or_default();
    serde_json::from_str(text).unwrap_or_default()
}
