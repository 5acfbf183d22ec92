//! A proxy of frames that makes trouble within the protocol: what the daemon
//! says of processes comes out of order and twice, what the client writes comes
//! twice, and now and then the connection breaks in the middle.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, accept_async, client_async};

/// Frames of the daemon until the connection is broken.
const FRAMES: u64 = 12;

/// How long a frame is held back for one to overtake it.
const HELD: Duration = Duration::from_millis(5);

pub(crate) struct Shuffle {
    pub(crate) url: String,
    /// Connections so far.
    pub(crate) connections: Arc<AtomicU64>,
    /// Frames that were overtaken.
    pub(crate) overtaken: Arc<AtomicU64>,
}

impl Shuffle {
    pub(crate) async fn before(url: &str) -> Self {
        let (url, target) = (url.to_owned(), url.trim_start_matches("ws://").to_owned());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = format!("ws://{}", listener.local_addr().unwrap());
        let connections = Arc::new(AtomicU64::new(0));
        let overtaken = Arc::new(AtomicU64::new(0));
        let (count, overtakes) = (Arc::clone(&connections), Arc::clone(&overtaken));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                let server = TcpStream::connect(&target).await.unwrap();
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                let client = accept_async(client).await.unwrap();
                let (server, _) = client_async(&url, server).await.unwrap();
                tokio::spawn(pass(client, server, Arc::clone(&overtakes)));
            }
        });
        Self {
            url: own,
            connections,
            overtaken,
        }
    }
}

/// Whether it is a message of this method, or raw output of a process.
fn is(message: &Message, method: &str) -> bool {
    match message {
        Message::Text(text) => text.contains(method),
        message => message.is_binary() && "\"process/output\"".starts_with(method),
    }
}

/// Dropping the streams breaks both connections.
async fn pass(
    client: WebSocketStream<TcpStream>,
    server: WebSocketStream<TcpStream>,
    overtakes: Arc<AtomicU64>,
) {
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
