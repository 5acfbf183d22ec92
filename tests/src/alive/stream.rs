//! Unix and TCP sockets as one.

use std::io;
use std::net::SocketAddr;
#[cfg(unix)]
use std::path::PathBuf;

use tokio::net::{TcpListener, TcpStream};
#[cfg(unix)]
use tokio::net::{UnixListener, UnixStream};

/// A listening socket.
#[derive(Debug)]
pub(super) enum Listener {
    #[cfg(unix)]
    Unix(UnixListener, PathBuf),
    Tcp(TcpListener, SocketAddr),
}

/// An accepted connection, read and written without blocking.
#[derive(Debug)]
pub(super) enum Stream {
    #[cfg(unix)]
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Listener {
    pub(super) async fn accept(&self) -> io::Result<Stream> {
        match self {
            #[cfg(unix)]
            Self::Unix(listener, _) => listener.accept().await.map(|(s, _)| Stream::Unix(s)),
            Self::Tcp(listener, _) => listener.accept().await.map(|(s, _)| Stream::Tcp(s)),
        }
    }

    /// Connects to itself.
    pub(super) async fn connect(&self) -> io::Result<Stream> {
        match self {
            #[cfg(unix)]
            Self::Unix(_, path) => UnixStream::connect(path).await.map(Stream::Unix),
            Self::Tcp(_, address) => TcpStream::connect(address).await.map(Stream::Tcp),
        }
    }

    /// The argument of `--alive` on the fixture's command line.
    pub(super) fn address(&self) -> String {
        match self {
            #[cfg(unix)]
            Self::Unix(_, path) => format!("unix:{}", path.display()),
            Self::Tcp(_, address) => format!("tcp:{address}"),
        }
    }
}

impl Stream {
    /// The pid of whoever has connected, as it is known here.
    pub(super) fn peer(&self) -> Option<u32> {
        match self {
            #[cfg(unix)]
            Self::Unix(stream) => stream.peer_cred().ok()?.pid()?.try_into().ok(),
            Self::Tcp(_) => None,
        }
    }

    /// Reads what there is; 0 at the end.
    pub(super) async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = match self {
                #[cfg(unix)]
                Self::Unix(stream) => {
                    stream.readable().await?;
                    stream.try_read(buffer)
                }
                Self::Tcp(stream) => {
                    stream.readable().await?;
                    stream.try_read(buffer)
                }
            };
            match read {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
        }
    }

    /// Writes a short line, at once or not at all.
    pub(super) fn try_write(&self, line: &[u8]) -> io::Result<usize> {
        match self {
            #[cfg(unix)]
            Self::Unix(stream) => stream.try_write(line),
            Self::Tcp(stream) => stream.try_write(line),
        }
    }
}
