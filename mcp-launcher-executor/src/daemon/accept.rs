//! [`Listener`]: connections from the network, or of this machine.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::admission::{Admission, OTHERS_CAME, Ticket};
use super::connection::{Kind, serve};
use super::http::upgrade;
use super::metrics::count;
use super::origin::Origin;
use super::tls::TlsIdentity;
use super::token::Token;
use super::unix::UnixDoor;
use super::{Daemon, Shared};
use crate::link::{Counted, WebSocketLink, websocket_config};

/// A bound address, not serving yet.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    tokens: Arc<[Token]>,
    tls: Option<TlsIdentity>,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix(UnixDoor),
}

/// An accepted connection.
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    async fn accept(&self) -> io::Result<(Stream, Origin)> {
        match self {
            Self::Tcp(socket) => {
                let (stream, peer) = socket.accept().await?;
                Ok((Stream::Tcp(stream), Origin::Network(peer, None)))
            }
            Self::Unix(door) => {
                let (stream, caller) = door.accept().await?;
                Ok((Stream::Unix(stream), Origin::User(caller)))
            }
        }
    }
}

impl Listener {
    /// Binds. An address that is not loopback needs a token, or certificates of
    /// clients. With several tokens, the clients of each are a share, see
    /// [`Limits::max_sessions_per_share`](super::Limits::max_sessions_per_share).
    ///
    /// # Errors
    ///
    /// `AddrInUse` and the like; `PermissionDenied` without either where one
    /// is needed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn bind(
        address: SocketAddr,
        tokens: impl IntoIterator<Item = Token>,
        tls: Option<TlsIdentity>,
    ) -> io::Result<Self> {
        let tokens: Arc<[Token]> = tokens.into_iter().collect();
        let asks_clients = tls.as_ref().is_some_and(TlsIdentity::asks_clients);
        if tokens.is_empty() && !asks_clients && !address.ip().is_loopback() {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "an address that is not loopback needs a token, or certificates of clients",
            ));
        }
        Ok(Self {
            socket: Socket::Tcp(TcpListener::bind(address).await?),
            tokens,
            tls,
        })
    }

    /// Binds a socket file, to which this user and root may connect: the kernel
    /// tells who does, so there is no token.
    ///
    /// The directory, and all above it, must belong to this user or root, and
    /// nobody else may be able to replace the file. A socket file of this user's
    /// at which nobody listens is replaced. Dropping the listener removes it.
    ///
    /// # Errors
    ///
    /// `AddrInUse` when somebody listens there; `AlreadyExists` when there is
    /// something that is not ours to replace; `PermissionDenied` names a
    /// directory that others can change.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
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

    /// The URL that clients connect to.
    ///
    /// # Errors
    ///
    /// As the system says; none in practice.
    pub fn url(&self) -> io::Result<String> {
        let scheme = if self.tls.is_some() { "wss" } else { "ws" };
        match &self.socket {
            Socket::Tcp(socket) => Ok(format!("{scheme}://{}", socket.local_addr()?)),
            Socket::Unix(door) => Ok(door.url()),
        }
    }

    /// Serves until the daemon has been shut down. While it is, nobody is let in, and
    /// nobody else gets the address.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops accepting; connections go on, and the address is the
    /// daemon's until it has been shut down.
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
                    // Out of descriptors, mostly: others have to end first.
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
            let ticket = admission.enter(origin.share(), until);
            let admission = Arc::clone(&admission);
            let shared = Arc::clone(shared);
            // Not the listener: the address is free when the daemon has been shut down.
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
    /// Waits no longer than allowed, nor than others let it.
    async fn within<T>(&self, handshake: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        tokio::select! {
            outcome = tokio::time::timeout_at(self.until, handshake) => outcome?,
            () = self.leave.cancelled() => Err(io::Error::other(OTHERS_CAME)),
        }
    }
}

/// The log has a line now and then, however many are refused.
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
    stream: Stream,
    origin: Origin,
    ticket: Ticket,
) -> io::Result<()> {
    let stream = match stream {
        Stream::Tcp(stream) => stream,
        Stream::Unix(stream) => return speak(shared, stream, origin, tokens, ticket).await,
    };
    stream.set_nodelay(true)?;
    match tls {
        None => speak(shared, stream, origin, tokens, ticket).await,
        Some(tls) => {
            let stream = ticket.within(tls.acceptor().accept(stream)).await?;
            speak(shared, stream, origin, tokens, ticket).await
        }
    }
}

async fn speak<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    shared: &Arc<Shared>,
    stream: S,
    mut origin: Origin,
    tokens: &[Token],
    ticket: Ticket,
) -> io::Result<()> {
    let mut stream = Counted::new(stream);
    let upgrade = async {
        let upgraded = upgrade(&mut stream, tokens).await;
        upgraded.map_err(io::Error::other)
    };
    let Some((early, shown)) = ticket.within(upgrade).await? else {
        return Ok(());
    };
    if let Origin::Network(_, token) = &mut origin {
        *token = shown.filter(|_| tokens.len() > 1);
    }
    let config = Some(websocket_config(shared.limits.max_frame));
    let socket = WebSocketStream::from_partially_read(stream, early, Role::Server, config).await;
    let link = Box::new(WebSocketLink::new(socket));
    let served = serve(shared, link, Kind::Socket, origin, Some(ticket)).await;
    served.map_err(io::Error::other)
}
