//! Requests the removal of a container without a runtime: the host may exit right after it dropped its
//! last server. The daemon completes a removal without its client (moby's `ContainerRm`).

use std::io::{self, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use socket2::{Domain, SockAddr, Socket, Type};

use super::Engine;

const LIMIT: Duration = Duration::from_millis(250);

impl Engine {
    /// Sends the request without waiting for the response, to a daemon behind a Unix socket.
    pub(crate) fn order_removal_now(&self, id: &str) {
        let Some(path) = self.endpoint.local_socket() else {
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

/// Connects within the limit: with a full backlog `connect(2)` would block for ever.
fn connect(path: &Path) -> io::Result<UnixStream> {
    let (address, deadline) = (SockAddr::unix(path)?, Instant::now() + LIMIT);
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    loop {
        match socket.connect(&address) {
            Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(5));
            }
            connected => return connected.map(|()| socket.into()),
        }
    }
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
