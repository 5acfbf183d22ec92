//! [`LaunchedServer`]: what a launcher hands over.

use std::fmt;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use super::terminator::ProcessTerminator;

/// A boxed byte sink: the server's standard input as the host sees it.
pub type BoxWrite = Box<dyn AsyncWrite + Send + Unpin>;

/// A boxed byte source: the server's standard output or standard error.
pub type BoxRead = Box<dyn AsyncRead + Send + Unpin>;

/// A started server: its three streams and the means to end it.
///
/// # Drop
///
/// Dropping it kills the server synchronously
/// ([`ProcessTerminator::kill_now`]). Give it to a
/// [`LifecycleClient`](crate::client::LifecycleClient) or turn it into a
/// [`ServerHandle`](crate::terminate::ServerHandle) for an orderly end.
pub struct LaunchedServer {
    parts: Option<LaunchedParts>,
}

/// The pieces of a [`LaunchedServer`].
#[non_exhaustive]
pub struct LaunchedParts {
    /// The server's standard input.
    pub stdin: BoxWrite,
    /// The server's standard output.
    pub stdout: BoxRead,
    /// The server's standard error, where the launcher keeps it apart.
    pub stderr: Option<BoxRead>,
    /// The means to end the server.
    pub terminator: Arc<dyn ProcessTerminator>,
}

impl LaunchedServer {
    /// Bundles what a launcher has started.
    pub fn new(
        stdin: impl AsyncWrite + Send + Unpin + 'static,
        stdout: impl AsyncRead + Send + Unpin + 'static,
        stderr: Option<BoxRead>,
        terminator: Arc<dyn ProcessTerminator>,
    ) -> Self {
        Self {
            parts: Some(LaunchedParts {
                stdin: Box::new(stdin),
                stdout: Box::new(stdout),
                stderr,
                terminator,
            }),
        }
    }

    /// The means to end this server.
    pub fn terminator(&self) -> &Arc<dyn ProcessTerminator> {
        match &self.parts {
            Some(parts) => &parts.terminator,
            None => unreachable!("parts are taken only by value"),
        }
    }

    /// Takes it apart, for a decorator or an owner of another kind than
    /// [`into_handle`](Self::into_handle) gives. Nothing ends the server unless the
    /// caller does.
    pub fn into_parts(mut self) -> LaunchedParts {
        match self.parts.take() {
            Some(parts) => parts,
            None => unreachable!("parts are taken only by value"),
        }
    }

    /// Replaces the terminator, for a decorator that adds something of its own
    /// to the end of every server.
    #[must_use]
    pub fn map_terminator(
        self,
        wrap: impl FnOnce(Arc<dyn ProcessTerminator>) -> Arc<dyn ProcessTerminator>,
    ) -> Self {
        let parts = self.into_parts();
        Self {
            parts: Some(LaunchedParts {
                terminator: wrap(parts.terminator),
                ..parts
            }),
        }
    }
}

impl Drop for LaunchedServer {
    fn drop(&mut self) {
        if let Some(parts) = &self.parts {
            parts.terminator.kill_now();
        }
    }
}

impl fmt::Debug for LaunchedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaunchedServer")
            .field("terminator", self.terminator())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for LaunchedParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaunchedParts")
            .field("terminator", &self.terminator)
            .finish_non_exhaustive()
    }
}
