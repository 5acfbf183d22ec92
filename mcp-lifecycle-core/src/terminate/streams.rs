//! A launched server apart: its owner, and its streams for any protocol.

use std::fmt;

use super::handle::ServerHandle;
use super::stdin::ServerStdin;
use crate::launch::launched::{BoxRead, LaunchedServer};

/// The streams of a server that a [`ServerHandle`] owns. They keep nothing alive.
#[non_exhaustive]
pub struct ServerStreams {
    /// The server's standard input, which the handle closes when it ends the server.
    pub stdin: ServerStdin,
    /// The server's standard output.
    pub stdout: BoxRead,
    /// The server's standard error, where the launcher keeps it apart. A server whose
    /// standard error nobody reads stops in a write at some 64 KiB.
    pub stderr: Option<BoxRead>,
}

impl LaunchedServer {
    /// Takes over the ownership: from here on the handle ends the server, in order or
    /// by being dropped. `server` is its name in reports.
    ///
    /// The streams are for a service loop of your own, MCP or not:
    ///
    /// ```no_run
    /// # use mcp_lifecycle_core::{EndReason, LaunchedServer, TerminateError, TerminationPolicy};
    /// # async fn example(launched: LaunchedServer) -> Result<(), TerminateError> {
    /// let (handle, streams) = launched.into_handle("files");
    /// let (stdout, stdin) = streams.into_pair();
    /// // Any protocol over `stdout` and `stdin`: `().serve((stdout, stdin))` with rmcp.
    /// # drop((stdout, stdin));
    /// let proof = handle.terminate(&TerminationPolicy::new(), EndReason::Shutdown).await?;
    /// println!("{proof}");
    /// # Ok(()) }
    /// ```
    pub fn into_handle(self, server: impl Into<String>) -> (ServerHandle, ServerStreams) {
        let parts = self.into_parts();
        let (handle, stdin) = ServerHandle::new(server, parts.stdin, parts.terminator);
        let streams = ServerStreams {
            stdin,
            stdout: parts.stdout,
            stderr: parts.stderr,
        };
        (handle, streams)
    }
}

impl ServerStreams {
    /// Standard output and standard input, as most service loops want them. Standard
    /// error is read to its end and thrown away.
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime.
    pub fn into_pair(self) -> (BoxRead, ServerStdin) {
        if let Some(mut stderr) = self.stderr {
            tokio::spawn(async move {
                let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
            });
        }
        (self.stdout, self.stdin)
    }
}

impl fmt::Debug for ServerStreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerStreams").finish_non_exhaustive()
    }
}
