//! Connections to engines: to remote ones for our own requests, to any for those through the proxy.
//! By hand: bollard's have no keep-alive, and give the proxy no stream.

mod ssh;
mod tcp;
#[cfg(feature = "tls")]
mod tls;

use std::io;
use std::path::PathBuf;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;

use crate::endpoint::Endpoint;

#[derive(Debug)]
pub(crate) enum Dial {
    Unix(PathBuf),
    Tcp(String),
    #[cfg(feature = "tls")]
    Tls(tls::Tls),
    Ssh(ssh::Ssh),
}

pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection to an engine. Dropping it closes it and ends the program that carries it.
pub(crate) type Connection = Box<dyn Stream>;

impl Dial {
    /// Reads certificates, if any. Connects to nothing.
    pub(crate) fn to(endpoint: &Endpoint) -> io::Result<Self> {
        match endpoint {
            Endpoint::Unix(path) => Ok(Self::Unix(path.clone())),
            Endpoint::Tcp(address) => Ok(Self::Tcp(address.clone())),
            #[cfg(feature = "tls")]
            Endpoint::Tls {
                address,
                certificates,
            } => Ok(Self::Tls(tls::Tls::new(address, certificates)?)),
            Endpoint::Ssh(url) => Ok(Self::Ssh(ssh::Ssh::new(url))),
            #[cfg(not(feature = "tls"))]
            Endpoint::Tls { .. } => {
                let problem = "mcp-launcher-docker was built without the feature tls";
                Err(io::Error::new(io::ErrorKind::Unsupported, problem))
            }
        }
    }

    pub(crate) async fn connect(&self) -> io::Result<Connection> {
        let connected = async {
            Ok::<Connection, io::Error>(match self {
                Self::Unix(path) => Box::new(UnixStream::connect(path).await?),
                Self::Tcp(address) => Box::new(tcp::connect(address).await?),
                #[cfg(feature = "tls")]
                Self::Tls(tls) => Box::new(tls.connect().await?),
                Self::Ssh(ssh) => Box::new(ssh.connect()?),
            })
        };
        tokio::time::timeout(std::time::Duration::from_secs(10), connected).await?
    }

    /// Returns the last stderr output of an ended program that carried a connection.
    pub(crate) async fn last_words(&self) -> Option<String> {
        match self {
            Self::Ssh(ssh) => ssh.last_words().await,
            _ => None,
        }
    }
}

impl hyper_util::client::legacy::connect::Connection for Connection {
    fn connected(&self) -> hyper_util::client::legacy::connect::Connected {
        hyper_util::client::legacy::connect::Connected::new()
    }
}
