//! The two seams of the project: [`ServerLauncher`] starts a server,
//! [`ProcessTerminator`](crate::launch::ProcessTerminator) ends it.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};

use super::error::launch::{LaunchError, ReapError};
use super::reap::ReapReport;
use super::remnant::Remnant;
use super::semantics::TerminationSemantics;
use super::spec::ServerSpec;
use super::terminator::ProcessTerminator;

/// A boxed byte sink: the server's standard input as the host sees it.
pub type BoxWrite = Box<dyn AsyncWrite + Send + Unpin>;

/// A boxed byte source: the server's standard output or standard error.
pub type BoxRead = Box<dyn AsyncRead + Send + Unpin>;

/// Starts stdio MCP servers somewhere: a process, a container, a remote process.
///
/// # Contract
///
/// This trait is a contract between launcher implementations and this crate.
/// Policy (the order of the shutdown, its clocks, sharing one termination
/// between callers, the report) lives in this crate; a launcher supplies
/// primitives.
///
/// * **No gap.** When the future of [`launch`](Self::launch) is dropped at any
///   await point, or returns an error, nothing of the server is left: no
///   process, no container, no remote start whose outcome is unknown, no file
///   descriptor. Where the far side cannot cancel a start, the launcher keeps
///   owning it in a task of its own and undoes it.
/// * **No clock.** A launcher does not time out by itself; the caller bounds
///   `launch` with its start-up deadline.
/// * **No stranger.** Nothing is ended that cannot be identified beyond a bare
///   pid, a name or an image.
///
/// The conformance kit (`mcp-lifecycle-conformance`) checks all of it.
#[async_trait]
pub trait ServerLauncher: fmt::Debug + Send + Sync + 'static {
    /// A short stable name for logs, errors and configuration: `"local"`.
    fn name(&self) -> &str;

    /// Tells launchers that start the same server in the same place and the same way
    /// from others, across instances: a host that reads its configuration again and
    /// makes its launchers anew keeps its running servers if their fingerprints are
    /// equal.
    ///
    /// Launchers of one [`name`](Self::name) are interchangeable if their fingerprints
    /// are equal. It covers every setting that makes the process or its containment,
    /// shows no secret, and need not be stable across versions or hosts. `None`, the
    /// default, means that this launcher is equal only to itself, by its `Arc`.
    fn fingerprint(&self) -> Option<String> {
        None
    }

    /// What this launcher can do to a server it starts, and what survives what.
    ///
    /// The values describe the next launch; a launcher that falls back to less
    /// on some machines says so here. Reads what is known: starts nothing and
    /// never blocks. A launcher that learns it by its first launch promises
    /// nothing before that, and says that it is not known yet.
    fn semantics(&self) -> TerminationSemantics;

    /// Starts the server that `spec` describes.
    ///
    /// # Errors
    ///
    /// A [`LaunchError`] names the command, what is wrong and what to do.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future leaves nothing behind (see the
    /// contract above).
    async fn launch(&self, spec: &ServerSpec) -> Result<LaunchedServer, LaunchError>;

    /// What launches of the server of this name, whose futures have ended without a
    /// server, may still bring about: a container whose create an engine has not
    /// answered yet. It is undone when it comes true.
    ///
    /// Reads what is known: never blocks. Empty, the default, for a launcher whose
    /// launches are undone when their futures end.
    fn unfinished(&self, server: &str) -> Vec<Remnant> {
        let _ = server;
        Vec::new()
    }

    /// Finds and ends what earlier hosts, now proven dead, left behind.
    ///
    /// Servers of a living host, of this host, and of another machine are not
    /// touched. A launcher that can leave nothing behind returns an empty report.
    /// What could not be looked at is never taken for absent: it is in
    /// [`ReapReport::unknown`], and its record is kept for the next search.
    ///
    /// # Errors
    ///
    /// [`ReapError`] when the search itself failed; what could not be ended is
    /// listed in the report, not an error.
    async fn reap_orphans(&self) -> Result<ReapReport, ReapError>;
}

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

/// The pieces of a [`LaunchedServer`], for whoever takes over its ownership.
pub struct LaunchedParts {
    /// The server's standard input.
    pub stdin: BoxWrite,
    /// The server's standard output.
    pub stdout: BoxRead,
    /// The server's standard error, where the launcher keeps it apart.
    pub stderr: Option<BoxRead>,
    /// What ends the server.
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

    /// What ends this server.
    pub fn terminator(&self) -> &Arc<dyn ProcessTerminator> {
        match &self.parts {
            Some(parts) => &parts.terminator,
            None => unreachable!("parts are taken only by value"),
        }
    }

    /// Takes it apart. From here on the caller owns the server: nothing ends
    /// it unless the caller does.
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

/// `dyn` is a promise: this fails to compile when it is broken.
const _: fn(&dyn ServerLauncher, &dyn ProcessTerminator) = |_, _| {};

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<T: ServerLauncher + ?Sized> ServerLauncher for Arc<T> {
    fn name(&self) -> &str {
        (**self).name()
    }
    fn fingerprint(&self) -> Option<String> {
        (**self).fingerprint()
    }
    fn semantics(&self) -> TerminationSemantics {
        (**self).semantics()
    }
    async fn launch(&self, spec: &ServerSpec) -> Result<LaunchedServer, LaunchError> {
        (**self).launch(spec).await
    }
    fn unfinished(&self, server: &str) -> Vec<Remnant> {
        (**self).unfinished(server)
    }
    async fn reap_orphans(&self) -> Result<ReapReport, ReapError> {
        (**self).reap_orphans().await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<T: ServerLauncher + ?Sized> ServerLauncher for Box<T> {
    fn name(&self) -> &str {
        (**self).name()
    }
    fn fingerprint(&self) -> Option<String> {
        (**self).fingerprint()
    }
    fn semantics(&self) -> TerminationSemantics {
        (**self).semantics()
    }
    async fn launch(&self, spec: &ServerSpec) -> Result<LaunchedServer, LaunchError> {
        (**self).launch(spec).await
    }
    fn unfinished(&self, server: &str) -> Vec<Remnant> {
        (**self).unfinished(server)
    }
    async fn reap_orphans(&self) -> Result<ReapReport, ReapError> {
        (**self).reap_orphans().await
    }
}
