//! Connections to engines: to remote ones for our own requests, to any for those through the proxy.
//! By hand: bollard's have no keep-alive, and give the proxy no stream.

#[cfg(feature = "ssh")]
mod ssh;
#[cfg(feature = "tcp")]
mod tcp;
#[cfg(feature = "tls")]
mod tls;

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;

use crate::endpoint::Endpoint;

const LIMIT: std::time::Duration = std::time::Duration::from_secs(10);

#[derive(Debug)]
pub(crate) enum Dial {
    Unix(PathBuf),
    #[cfg(feature = "tcp")]
    Tcp(String),
    #[cfg(feature = "tls")]
    Tls(tls::Tls),
    #[cfg(feature = "ssh")]
    Ssh(ssh::Ssh),
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection to an engine. Dropping it closes it and ends the program that carries it.
pub(crate) struct Connection {
    stream: Box<dyn Stream>,
    #[cfg(feature = "ssh")]
    _program: Option<tokio::process::Child>,
}

impl Dial {
    /// Reads certificates, if any. Connects to nothing.
    pub(crate) fn to(endpoint: &Endpoint) -> io::Result<Self> {
        match endpoint {
            Endpoint::Unix(path) => Ok(Self::Unix(path.clone())),
            #[cfg(feature = "tcp")]
            Endpoint::Tcp(address) => Ok(Self::Tcp(address.clone())),
            #[cfg(feature = "tls")]
            Endpoint::Tls {
                address,
                certificates,
            } => Ok(Self::Tls(tls::Tls::new(address, certificates)?)),
            #[cfg(feature = "ssh")]
            Endpoint::Ssh(url) => Ok(Self::Ssh(ssh::Ssh::new(url))),
            #[cfg(not(all(feature = "tls", feature = "ssh")))]
            other => {
                let problem = format!(
                    "mcp-launcher-docker was built without the feature for {other}: tcp, tls or ssh"
                );
                Err(io::Error::new(io::ErrorKind::Unsupported, problem))
            }
        }
    }

    /// Connects within ten seconds.
    pub(crate) async fn connect(&self) -> io::Result<Connection> {
        let connected = async {
            Ok(match self {
                Self::Unix(path) => Connection::over(UnixStream::connect(path).await?),
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

    /// Returns the last stderr output of an ended program that carried a connection.
    pub(crate) async fn last_words(&self) -> Option<String> {
        #[cfg(feature = "ssh")]
        if let Self::Ssh(ssh) = self {
            return ssh.last_words().await;
        }
        None
    }
}

impl Connection {
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
