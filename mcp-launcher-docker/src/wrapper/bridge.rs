//! A socket of this machine behind which a remote engine is: the proxy speaks to it
//! as to any other. Bytes are copied; what is end of input on one side is on the
//! other.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::control;
use crate::endpoint::Endpoint;

/// How long a connection to the engine may take.
const LIMIT: Duration = Duration::from_secs(10);

/// So many connections at a time; the proxy in front has bounds of its own.
const MOST: usize = 256;

/// A socket that leads to a remote engine.
///
/// # Drop
///
/// Removes the socket. Connections that are open go on until either side ends them.
#[derive(Debug)]
pub(super) struct Bridge {
    path: PathBuf,
    stop: CancellationToken,
}

/// Both directions of a connection.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection to the engine, and the program that carries it.
struct Connection {
    stream: Box<dyn Stream>,
    _program: Option<tokio::process::Child>,
}

/// How the engine is reached.
enum Way {
    #[cfg(feature = "tcp")]
    Tcp(String),
    #[cfg(feature = "tls")]
    Tls(super::tls::Tls),
    #[cfg(feature = "ssh")]
    Ssh(String),
}

impl Bridge {
    /// Listens at `path`, whose directory is private.
    ///
    /// # Errors
    ///
    /// Also where this build lacks the feature for such an endpoint, or the
    /// certificates cannot be used.
    pub(super) fn start(path: PathBuf, endpoint: &Endpoint) -> io::Result<Self> {
        let way = Arc::new(Way::to(endpoint)?);
        let listener = std::os::unix::net::UnixListener::bind(&path)?;
        let stop = CancellationToken::new();
        let bridge = Self {
            path,
            stop: stop.clone(),
        };
        std::fs::set_permissions(&bridge.path, PermissionsExt::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        control::spawn(async move {
            tokio::select! {
                error = accept(listener, way) => debug!(?error, "a bridge ends"),
                () = stop.cancelled() => {}
            }
        })?;
        Ok(bridge)
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.stop.cancel();
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn accept(
    listener: std::os::unix::net::UnixListener,
    way: Arc<Way>,
) -> io::Result<std::convert::Infallible> {
    let listener = UnixListener::from_std(listener)?;
    let places = Arc::new(Semaphore::new(MOST));
    loop {
        let place = Arc::clone(&places).acquire_owned().await;
        let place = place.map_err(io::Error::other)?;
        let (client, _) = match listener.accept().await {
            Ok(accepted) => accepted,
            // No descriptor free, or gone already.
            Err(error) => {
                debug!(%error, "a connection is not accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let way = Arc::clone(&way);
        drop(tokio::spawn(async move {
            let _place = place;
            if let Err(error) = carry(client, &way).await {
                debug!(%error, "a connection to the engine ends");
            }
        }));
    }
}

async fn carry(mut client: UnixStream, way: &Way) -> io::Result<()> {
    let mut engine = timeout(LIMIT, way.connect()).await??;
    copy_bidirectional(&mut client, &mut engine.stream).await?;
    Ok(())
}

impl Way {
    fn to(endpoint: &Endpoint) -> io::Result<Self> {
        match endpoint {
            #[cfg(feature = "tcp")]
            Endpoint::Tcp(address) => Ok(Self::Tcp(address.clone())),
            #[cfg(feature = "tls")]
            Endpoint::Tls {
                address,
                certificates,
            } => Ok(Self::Tls(super::tls::Tls::new(address, certificates)?)),
            #[cfg(feature = "ssh")]
            Endpoint::Ssh(url) => Ok(Self::Ssh(url.clone())),
            other => {
                let problem = format!(
                    "mcp-launcher-docker was built without the feature for {other}: tcp, tls or ssh"
                );
                Err(io::Error::new(io::ErrorKind::Unsupported, problem))
            }
        }
    }

    #[cfg(not(any(feature = "tcp", feature = "ssh")))]
    async fn connect(&self) -> io::Result<Connection> {
        match *self {}
    }

    #[cfg(any(feature = "tcp", feature = "ssh"))]
    async fn connect(&self) -> io::Result<Connection> {
        let (stream, program): (Box<dyn Stream>, _) = match self {
            #[cfg(feature = "tcp")]
            Self::Tcp(address) => {
                let stream = tokio::net::TcpStream::connect(address).await?;
                (Box::new(stream), None)
            }
            #[cfg(feature = "tls")]
            Self::Tls(tls) => (Box::new(tls.connect().await?), None),
            #[cfg(feature = "ssh")]
            Self::Ssh(url) => {
                let (program, stdout, stdin) = super::ssh::connect(url)?;
                (Box::new(tokio::io::join(stdout, stdin)), Some(program))
            }
        };
        Ok(Connection {
            stream,
            _program: program,
        })
    }
}
