//! The host's ends of a server's streams.

use std::io;
use std::os::fd::OwnedFd;

use tokio::net::unix::pipe;

/// The host's end of standard input.
pub(crate) fn writer(fd: OwnedFd) -> io::Result<pipe::Sender> {
    pipe::Sender::from_owned_fd(fd)
}

/// The host's end of standard output or standard error.
pub(crate) fn reader(fd: OwnedFd) -> io::Result<pipe::Receiver> {
    pipe::Receiver::from_owned_fd(fd)
}
