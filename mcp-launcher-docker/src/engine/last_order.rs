//! The order to remove a container, given without a runtime.
//!
//! The host may end right after it dropped its last server, so that no thread
//! of ours gets to do anything. The daemon goes on with a removal whose client
//! has gone (moby `ContainerRm` takes no context of the request), so it is
//! enough to put the request into its socket.

#[cfg(unix)]
use std::{
    io::{self, Write},
    os::fd::AsRawFd,
    os::unix::net::UnixStream,
    path::Path,
    time::{Duration, Instant},
};

use super::Engine;

/// A daemon that does not even take a request is not waited for.
#[cfg(unix)]
const LIMIT: Duration = Duration::from_millis(250);

#[cfg(unix)]
impl Engine {
    /// Gives the order and does not wait for the answer. Does nothing for a
    /// daemon that is not behind a Unix socket of this machine.
    pub(crate) fn order_removal_now(&self, id: &str) {
        let Some(path) = self.endpoint().local_socket() else {
            return;
        };
        let request = format!(
            "DELETE /containers/{id}?force=1&v=1 HTTP/1.1\r\nHost: docker\r\nConnection: close\r\n\r\n"
        );
        let sent = connect(path).and_then(|mut socket| {
            socket.set_nonblocking(false)?;
            socket.set_write_timeout(Some(LIMIT))?;
            socket.write_all(request.as_bytes())
        });
        if let Err(error) = sent {
            tracing::debug!(container = id, %error, "removal not ordered at once");
        }
    }
}

/// Connects, without waiting for a place among those that the daemon has not
/// accepted for longer than the limit: `connect(2)` itself would wait for ever.
#[cfg(unix)]
fn connect(path: &Path) -> io::Result<UnixStream> {
    use nix::errno::Errno;
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};

    let address = UnixAddr::new(path)?;
    #[cfg(target_os = "linux")]
    let flags = SockFlag::SOCK_CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    let flags = SockFlag::empty();
    let found = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    let stream = UnixStream::from(found);
    #[cfg(not(target_os = "linux"))]
    nix::fcntl::fcntl(
        &stream,
        nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC),
    )?;
    stream.set_nonblocking(true)?;
    let deadline = Instant::now() + LIMIT;
    loop {
        match connect(stream.as_raw_fd(), &address) {
            Err(Errno::EAGAIN) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(5));
            }
            connected => return connected.map(|()| stream).map_err(io::Error::from),
        }
    }
}

#[cfg(not(unix))]
impl Engine {
    /// Only the control thread gives the order here.
    pub(crate) fn order_removal_now(&self, _: &str) {}
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::endpoint::Endpoint;
    use nix::sys::socket;

    /// Stopped, and everybody wants something of it.
    #[test]
    fn a_daemon_that_accepts_nobody_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        socket::listen(&listener, socket::Backlog::new(1).unwrap()).unwrap();
        let waiting: Vec<_> = std::iter::repeat_with(|| connect(&path))
            .take_while(io::Result::is_ok)
            .collect();
        assert!(waiting.len() < 10, "{}", waiting.len());

        let (done, is_done) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            Engine::new(Endpoint::Unix(path)).order_removal_now("x");
            done.send(()).unwrap();
        });
        let limit = LIMIT * 20;
        is_done.recv_timeout(limit).expect("it does not wait");
    }
}
