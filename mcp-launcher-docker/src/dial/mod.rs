//! Connections to engines elsewhere: one way for our own requests and for those of
//! servers behind the proxy.

#[cfg(feature = "ssh")]
mod ssh;
#[cfg(feature = "tcp")]
mod tcp;
#[cfg(feature = "tls")]
mod tls;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::endpoint::Endpoint;

/// The longest time a connection may take.
#[cfg(any(feature = "tcp", feature = "ssh"))]
const LIMIT: std::time::Duration = std::time::Duration::from_secs(10);

/// How an engine elsewhere is reached.
#[derive(Debug)]
pub(crate) enum Dial {
    #[cfg(feature = "tcp")]
    Tcp(String),
    #[cfg(feature = "tls")]
    Tls(tls::Tls),
    #[cfg(feature = "ssh")]
    Ssh(ssh::Ssh),
}

/// Both directions of a connection.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection to an engine.
///
/// # Drop
///
/// Closes it, and ends the program that carries it.
pub(crate) struct Connection {
    stream: Box<dyn Stream>,
    #[cfg(feature = "ssh")]
    _program: Option<tokio::process::Child>,
}

impl Dial {
    /// Reads certificates, where there are some. Nobody is asked yet.
    ///
    /// # Errors
    ///
    /// `Unsupported` where this build lacks the feature for such an endpoint, or it is
    /// none that is elsewhere. Those of the file system name a certificate.
    pub(crate) fn to(endpoint: &Endpoint) -> io::Result<Self> {
        match endpoint {
            #[cfg(feature = "tcp")]
            Endpoint::Tcp(address) => Ok(Self::Tcp(address.clone())),
            #[cfg(feature = "tls")]
            Endpoint::Tls {
                address,
                certificates,
            } => Ok(Self::Tls(tls::Tls::new(address, certificates)?)),
            #[cfg(feature = "ssh")]
            Endpoint::Ssh(url) => Ok(Self::Ssh(ssh::Ssh::new(url))),
            other => {
                let problem = format!(
                    "mcp-launcher-docker was built without the feature for {other}: tcp, tls or ssh"
                );
                Err(io::Error::new(io::ErrorKind::Unsupported, problem))
            }
        }
    }

    #[cfg(not(any(feature = "tcp", feature = "ssh")))]
    pub(crate) async fn connect(&self) -> io::Result<Connection> {
        match *self {}
    }

    /// Connects, within ten seconds. A peer that vanishes later is noticed by the
    /// system, and ends the connection (TCP; of ssh, by ssh).
    #[cfg(any(feature = "tcp", feature = "ssh"))]
    pub(crate) async fn connect(&self) -> io::Result<Connection> {
        let connected = async {
            Ok(match self {
                #[cfg(feature = "tcp")]
                Self::Tcp(address) => Connection::over(tcp::connect(address).await?),
                #[cfg(feature = "tls")]
                Self::Tls(tls) => Connection::over(tls.connect().await?),
                #[cfg(feature = "ssh")]
                Self::Ssh(ssh) => {
                    let (program, streams) = ssh.connect()?;
                    Connection {
                        _program: Some(program),
                        ..Connection::over(streams)
                    }
                }
            })
        };
        tokio::time::timeout(LIMIT, connected).await?
    }

    /// Returns the last words of the program that carried a connection; `None` where
    /// there is no program, or it lives.
    pub(crate) async fn last_words(&self) -> Option<String> {
        match self {
            #[cfg(feature = "ssh")]
            Self::Ssh(ssh) => ssh.last_words().await,
            #[cfg(feature = "tcp")]
            Self::Tcp(_) => None,
            #[cfg(feature = "tls")]
            Self::Tls(_) => None,
            #[cfg(not(any(feature = "tcp", feature = "ssh")))]
            never => match *never {},
        }
    }
}

impl Connection {
    #[cfg(any(feature = "tcp", feature = "ssh"))]
    fn over(stream: impl Stream + 'static) -> Self {
        Self {
            stream: Box::new(stream),
            #[cfg(feature = "ssh")]
            _program: None,
        }
    }
}

impl hyper_util::client::legacy::connect::Connection for Connection {
    fn connected(&self) -> hyper_util::client::legacy::connect::Connected {
        hyper_util::client::legacy::connect::Connected::new()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
