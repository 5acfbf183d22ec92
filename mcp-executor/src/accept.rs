use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::Request;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::admission::{Admission, OTHERS_CAME, Ticket};
use super::connection::serve;
use super::http::{Upgraded, exchange, upgrade};
use super::metrics::count;
use super::origin::Origin;
use super::tls::TlsIdentity;
use super::token::Token;
use super::unix::UnixDoor;
use super::{Daemon, Shared};
use crate::link::{Counted, WebSocketLink, websocket_config};

/// A bound address.
pub struct Listener {
    socket: Socket,
    tokens: Arc<[Token]>,
    tls: Option<TlsIdentity>,
}

enum Socket {
    Tcp(TcpListener),
    Unix(UnixDoor),
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Socket {
    async fn accept(&self) -> io::Result<(Box<dyn Stream>, Origin)> {
        match self {
            Self::Tcp(socket) => {
                let (stream, peer) = socket.accept().await?;
                // One that was reset meanwhile fails where it is read.
                let _ = stream.set_nodelay(true);
                Ok((Box::new(stream), Origin::Network(peer, None)))
            }
            Self::Unix(door) => {
                let (stream, caller) = door.accept().await?;
                Ok((Box::new(stream), Origin::User(caller)))
            }
        }
    }
}

impl Listener {
    /// Binds an address. One that is not loopback needs a token or client certificates. The clients
    /// of each token have their own quotas: [`Limits`](super::Limits).
    pub async fn bind(
        address: SocketAddr,
        tokens: impl IntoIterator<Item = Token>,
        tls: Option<TlsIdentity>,
    ) -> io::Result<Self> {
        let tokens: Arc<[Token]> = tokens.into_iter().collect();
        let asks_clients = tls.as_ref().is_some_and(TlsIdentity::asks_clients);
        if tokens.is_empty() && !asks_clients && !address.ip().is_loopback() {
            let text = "other machines can reach it; give --token-file or --tls-client-ca, or \
                        listen on 127.0.0.1";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        Ok(Self {
            socket: Socket::Tcp(TcpListener::bind(address).await?),
            tokens,
            tls,
        })
    }

    /// Binds a socket file for this user and root. The kernel identifies the caller, so there is no
    /// token.
    ///
    /// The directory, and all above it, must belong to this user or root, and no other user may be
    /// able to replace the file. This user's socket file without a listener is replaced. Dropping
    /// the listener removes it.
    pub async fn bind_unix(path: &Path) -> io::Result<Self> {
        Ok(Self {
            socket: Socket::Unix(UnixDoor::bind(path).await?),
            tokens: Arc::default(),
            tls: None,
        })
    }

    pub(super) fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// Returns the URL for clients.
    pub fn url(&self) -> io::Result<String> {
        let scheme = if self.tls.is_some() { "wss" } else { "ws" };
        match &self.socket {
            Socket::Tcp(socket) => Ok(format!("{scheme}://{}", socket.local_addr()?)),
            Socket::Unix(door) => Ok(door.url()),
        }
    }

    /// Serves until the daemon has been shut down. During the shutdown, clients are refused and the
    /// address stays taken.
    pub async fn serve(self, daemon: &Daemon) {
        let shared = &daemon.shared;
        let admission = Arc::new(Admission::default());
        let listener = Arc::new(self);
        {
            let mut listeners = shared.listeners.lock();
            if shared.over.is_cancelled() {
                return;
            }
            listeners.push(Arc::clone(&listener));
        }
        loop {
            let accepted = tokio::select! {
                accepted = listener.socket.accept() => accepted,
                () = shared.over.cancelled() => return,
            };
            if accepted.is_ok() && shared.closing.is_cancelled() {
                continue;
            }
            let (stream, origin) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Usually out of descriptors: other connections must end first.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            if matches!(origin, Origin::User(caller) if !caller.is_admitted()) {
                say_refused(shared, &admission, "it is of another user", &origin);
                continue;
            }
            let until = tokio::time::Instant::now() + shared.limits.handshake;
            let ticket = admission.enter(origin.door(), until);
            let admission = Arc::clone(&admission);
            let shared = Arc::clone(shared);
            // Not the listener: its address is released when the daemon has been shut down.
            let (tokens, tls) = (Arc::clone(&listener.tokens), listener.tls.clone());
            tokio::spawn(async move {
                let door = (&*tokens, tls.as_ref());
                let served = client(&shared, door, stream, origin.clone(), ticket).await;
                if let Err(error) = served {
                    say_refused(&shared, &admission, &error.to_string(), &origin);
                }
            });
        }
    }
}

impl Ticket {
    pub(super) async fn within<T>(
        &self,
        handshake: impl Future<Output = io::Result<T>>,
    ) -> io::Result<T> {
        tokio::select! {
            outcome = tokio::time::timeout_at(self.until, handshake) => outcome?,
            () = self.leave.cancelled() => Err(io::Error::other(OTHERS_CAME)),
        }
    }
}

fn say_refused(shared: &Shared, admission: &Admission, why: &str, origin: &Origin) {
    count(&shared.counters.refused, 1);
    if let Some(refused) = admission.refused(Instant::now()) {
        tracing::warn!(refused, last = %origin, why, "connections were refused");
    }
    tracing::debug!(peer = %origin, why, "a connection was refused");
}

async fn client(
    shared: &Arc<Shared>,
    (tokens, tls): (&[Token], Option<&TlsIdentity>),
    stream: Box<dyn Stream>,
    mut origin: Origin,
    ticket: Ticket,
) -> io::Result<()> {
    let stream: Box<dyn Stream> = match tls {
        None => stream,
        Some(tls) => Box::new(ticket.within(tls.acceptor().accept(stream)).await?),
    };
    let judge = |request: &Request<()>| upgrade(request, tokens);
    let asked = async {
        let asked = exchange(Counted::new(stream), shared.limits.handshake, judge).await;
        asked.map_err(io::Error::other)
    };
    let Some(Upgraded {
        stream,
        early,
        token: shown,
    }) = ticket.within(asked).await?
    else {
        return Ok(());
    };
    if let Origin::Network(_, token) = &mut origin {
        *token = shown;
    }
    let config = Some(websocket_config(shared.limits.max_frame));
    let early = early.to_vec();
    let socket = WebSocketStream::from_partially_read(stream, early, Role::Server, config).await;
    let link = Box::new(WebSocketLink::new(socket));
    let served = serve(shared, link, origin, Some(ticket)).await;
    served.map_err(io::Error::other)
}
