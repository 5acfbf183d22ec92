//! The order to remove a container, given without a runtime.
//!
//! The host may end right after it dropped its last server, so that no thread
//! of ours gets to do anything. The daemon goes on with a removal whose client
//! has gone (moby `ContainerRm` takes no context of the request), so it is
//! enough to put the request into its socket.

use super::Engine;

#[cfg(unix)]
impl Engine {
    /// Gives the order and does not wait for the answer. Does nothing for a
    /// daemon that is not behind a Unix socket of this machine.
    pub(crate) fn order_removal_now(&self, id: &str) {
        use std::io::Write;
        use std::os::unix::net::UnixStream;
        use std::time::Duration;

        /// A daemon that does not even take a request is not waited for.
        const LIMIT: Duration = Duration::from_millis(250);

        let Some(path) = self.endpoint().local_socket() else {
            return;
        };
        let request = format!(
            "DELETE /containers/{id}?force=1&v=1 HTTP/1.1\r\nHost: docker\r\nConnection: close\r\n\r\n"
        );
        let sent = UnixStream::connect(path).and_then(|mut socket| {
            socket.set_write_timeout(Some(LIMIT))?;
            socket.write_all(request.as_bytes())
        });
        if let Err(error) = sent {
            tracing::debug!(container = id, %error, "removal not ordered at once");
        }
    }
}

#[cfg(not(unix))]
impl Engine {
    /// Only the control thread gives the order here.
    pub(crate) fn order_removal_now(&self, _: &str) {}
}
