use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{
    Containment, ExitStatus, Gone, LaunchContext, LaunchError, ReapError, ReapReport, Remnant,
    ServerIdentity, ServerSpec, StepError,
};
use crate::launch::macros::debug_fields;

/// Starts stdio MCP servers somewhere: a process, a container, a remote process.
///
/// # Contract
///
/// A launcher supplies primitives; the order of an end, its clocks and its report are this crate's.
/// The conformance kit (`mcp-lifecycle-conformance`) checks all of it.
///
/// * **No gap.** When the future of [`launch`](Self::launch) is dropped at any await point, or
///   returns an error, nothing of the server is left: no process, container, descriptor, or remote
///   start with an unknown outcome. A start that cannot be cancelled stays owned, in a task of the
///   launcher's, and is undone.
/// * **No clock.** The caller bounds `launch` with its start-up deadline.
/// * **No blocking.** No poll of a future blocks the thread.
/// * **No thread.** The life of a server depends on no thread of the host. A server that is to end
///   with its host does not end with the thread that started it.
/// * **No stranger.** Nothing is ended that is identified only by a pid, a name or an image.
#[async_trait]
pub trait ServerLauncher: fmt::Debug + Send + Sync + 'static {
    /// A short stable name for logs, errors and configuration: `"local"`.
    fn name(&self) -> &str;

    /// Identifies equivalent launchers: a host that creates its launchers anew, as it reloads its
    /// configuration, keeps the servers of those with equal names and fingerprints.
    ///
    /// It covers every setting that affects the process or its containment, holds no secret, and
    /// need not be stable across versions or hosts. `None`, the default: equals only itself, by its
    /// `Arc`.
    fn fingerprint(&self) -> Option<String> {
        None
    }

    /// Returns the steps of an end that its next server supports, and their reach, including a
    /// fallback on this machine. Starts nothing and never blocks. A launcher that learns them by its
    /// first launch promises nothing before that.
    fn semantics(&self) -> TerminationSemantics;

    /// Fetches what a launch of `spec` needs and lacks, such as an image, so that a slow download
    /// does not use up the start-up deadline. Starts no server; a launch also works without it. The
    /// default does nothing. Cancel safe: downloads may be kept, and may be completed.
    async fn prepare(&self, spec: &ServerSpec, context: &LaunchContext) -> Result<(), LaunchError> {
        let _ = (spec, context);
        Ok(())
    }

    /// Starts the server that `spec` describes. Cancel safe: see the contract above.
    ///
    /// # Errors
    ///
    /// A [`LaunchError`] names the command, the problem and its remedy.
    async fn launch(
        &self,
        spec: &ServerSpec,
        context: &LaunchContext,
    ) -> Result<LaunchedServer, LaunchError>;

    /// Lists remnants that ended launches of the server of this name may still create, such as a
    /// container that an engine has not confirmed yet. They are removed once created. Never blocks;
    /// empty by default.
    fn unfinished(&self, server: &str) -> Vec<Remnant> {
        let _ = server;
        Vec::new()
    }

    /// Finds and ends what earlier hosts, now proven dead, left behind. Leaves servers of a living
    /// host, of this host, and of another machine alone.
    ///
    /// # Errors
    ///
    /// [`ReapError`] when the search itself failed. What could not be ended or examined is in the
    /// report, and its record is kept for the next search.
    async fn reap_orphans(&self) -> Result<ReapReport, ReapError>;
}

/// The abilities of a launcher: the steps of an end. The ladder skips steps that are not supported.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TerminationSemantics {
    /// Closing stdin reaches the server as end of file.
    pub stdin_eof: bool,
    /// The server can be asked to end, with SIGTERM or an equivalent.
    pub polite_signal: bool,
    /// The containment of the server's processes.
    pub containment: Containment,
}

crate::setters! { TerminationSemantics:
    /// Claims that closing stdin reaches the server as end of file.
    #[must_use]
    stdin_eof() |it| it.stdin_eof = true;
    /// Claims that the server can be asked to end.
    #[must_use]
    polite_signal() |it| it.polite_signal = true;
}

impl TerminationSemantics {
    /// Creates semantics with nothing but a forced end.
    pub fn new(containment: Containment) -> Self {
        Self {
            stdin_eof: false,
            polite_signal: false,
            containment,
        }
    }

    /// Creates semantics with every step of an end.
    pub fn all(containment: Containment) -> Self {
        Self::new(containment).stdin_eof().polite_signal()
    }
}

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

/// Primitives to watch and end one server.
///
/// # Contract
///
/// Implemented by launchers, called by [`ServerHandle`](crate::terminate::ServerHandle), which owns
/// the order, the waits and the report. Users call the handle.
///
/// * Every method takes `&self` and may be called concurrently, in any order, again after success,
///   and after the server has ended.
/// * Dropping a returned future undoes nothing and loses nothing.
/// * *Server* means the main process and whatever it started, as far as
///   [`semantics`](Self::semantics) declares.
/// * No method has a timeout. The clocks are those of the
///   [`TerminationPolicy`](crate::terminate::TerminationPolicy): a call has the whole wait of its
///   step (`eof_grace`, `term_grace`, `kill_confirmation`), and is dropped when the next step
///   follows. A request that *fails* is followed by the next step at once. A forced end that fails,
///   or is not acknowledged in half its wait, is followed by [`kill_now`](Self::kill_now).
#[async_trait]
pub trait ProcessTerminator: fmt::Debug + Send + Sync + 'static {
    /// Returns the server's identity, for logs and operators.
    fn identity(&self) -> ServerIdentity;

    /// Returns the steps of an end that this server supports, and their reach.
    fn semantics(&self) -> TerminationSemantics;

    /// Completes when the main process has ended for any reason.
    ///
    /// Event driven. [`ExitStatus::Unknown`] if the process is known to have ended but its status
    /// was lost.
    async fn exited(&self) -> ExitStatus;

    /// Asks the whole server to end: SIGTERM (and SIGCONT, for a stopped one).
    ///
    /// Returns once the request is delivered. Not called if [`TerminationSemantics::polite_signal`]
    /// is `false`.
    ///
    /// # Errors
    ///
    /// [`StepError`] when the request could not be delivered. `Ok` if the server has ended already.
    async fn request_end(&self) -> Result<(), StepError>;

    /// Forces the whole server to end: SIGKILL or an equivalent.
    ///
    /// Returns once the order is given; [`gone`](Self::gone) confirms its completion.
    ///
    /// # Errors
    ///
    /// [`StepError`] when the order could not be given.
    async fn force_end(&self) -> Result<(), StepError>;

    /// Completes on proof that nothing of the server is left.
    ///
    /// Event driven and passive. The proof: processes ended and reaped, container absent, remote
    /// process reported closed.
    ///
    /// # Errors
    ///
    /// [`StepError`] when no proof is possible any more, for instance because the connection to the
    /// other machine is lost.
    async fn gone(&self) -> Result<Gone, StepError>;

    /// Lists the living parts of the server. An empty list is no proof: only [`gone`](Self::gone)
    /// is.
    ///
    /// # Errors
    ///
    /// [`StepError`] when they cannot be determined.
    async fn survivors(&self) -> Result<Vec<Remnant>, StepError>;

    /// Forces the server to end, synchronously, as the last resort.
    ///
    /// Works in `Drop`, during a panic, and without or after a runtime. Blocks no longer than
    /// giving the order takes, does not panic, and leaves no zombie: the launcher reaps by its own
    /// means.
    fn kill_now(&self);
}

/// Fails to compile unless both traits are dyn compatible.
const _: fn(&dyn ServerLauncher, &dyn ProcessTerminator) = |_, _| {};
