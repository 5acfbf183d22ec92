use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use super::ProcessTerminator;
use crate::launch::macros::debug_fields;

/// A boxed byte sink: the server's stdin. One that learns later that its bytes are not read fails
/// the next flush, and wakes the last task that flushed it.
pub type BoxWrite = Box<dyn AsyncWrite + Send + Unpin>;

/// A boxed byte source: the server's stdout or stderr.
pub type BoxRead = Box<dyn AsyncRead + Send + Unpin>;

/// A started server: its three streams and the means to end it.
///
/// # Drop
///
/// Dropping it kills the server synchronously ([`ProcessTerminator::kill_now`]).
pub struct LaunchedServer {
    parts: Option<LaunchedParts>,
}

/// The pieces of a [`LaunchedServer`].
#[non_exhaustive]
#[expect(missing_docs, reason = "the field has its name")]
pub struct LaunchedParts {
    pub stdin: BoxWrite,
    pub stdout: BoxRead,
    /// The server's stderr, if separate.
    pub stderr: Option<BoxRead>,
    pub terminator: Arc<dyn ProcessTerminator>,
}

impl LaunchedServer {
    /// Bundles the parts of a started server.
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

    /// Returns the means to end this server.
    pub fn terminator(&self) -> &Arc<dyn ProcessTerminator> {
        match &self.parts {
            Some(parts) => &parts.terminator,
            None => unreachable!("parts are taken only by value"),
        }
    }

    /// Takes it apart, for a decorator. The caller must then end the server.
    pub fn into_parts(mut self) -> LaunchedParts {
        match self.parts.take() {
            Some(parts) => parts,
            None => unreachable!("parts are taken only by value"),
        }
    }

    /// Replaces the terminator, for a decorator that extends the end of every server.
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

debug_fields!(
    LaunchedServer,
    it {
        terminator: it.terminator()
    }
);

debug_fields!(
    LaunchedParts,
    it {
        terminator: &it.terminator
    }
);
