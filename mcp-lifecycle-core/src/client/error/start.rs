//! The failure of a start: launch and handshake.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::launch::error::launch::{LaunchError, LaunchErrorKind};
use crate::launch::exit::ExitStatus;
use crate::launch::remnant::{Remnant, RemnantList};
use crate::terminate::handle::TerminationOutcome;

/// A server could not be started. Whatever had been started of it was ended: the
/// context has the proof, or the error that names survivors.
///
/// Clones are cheap.
#[derive(Debug, Clone, Error)]
#[error("{}", describe(&.0.0, &.0.1))]
pub struct StartError(Arc<(StartErrorContext, StartErrorKind)>);

/// The subject of a [`StartError`].
#[derive(Debug)]
#[non_exhaustive]
pub struct StartErrorContext {
    /// The server's name in its specification.
    pub server: String,
    /// Its command, for people.
    pub command: String,
    /// The step that the start had reached.
    pub phase: StartPhase,
    /// The time it took until it failed.
    pub elapsed: Duration,
    /// The last lines the server wrote to standard error.
    pub stderr_tail: Vec<String>,
    /// The lines on its standard output that were not the protocol, if any.
    pub skipped: Option<SkippedLines>,
    /// The end of what had been started; `None` when the launcher had not handed
    /// a server over. Then it has undone what it did, but for what is `unfinished`.
    pub cleanup: Option<TerminationOutcome>,
    /// Remnants that the launch may still bring about, where it was cut short
    /// ([`ServerLauncher::unfinished`](crate::launch::ServerLauncher::unfinished)). It is
    /// undone when it comes true.
    pub unfinished: Vec<Remnant>,
}

impl StartError {
    pub(crate) fn new(context: StartErrorContext, kind: StartErrorKind) -> Self {
        Self(Arc::new((context, kind)))
    }

    /// The kind of failure.
    pub fn kind(&self) -> &StartErrorKind {
        &self.0.1
    }

    /// The launcher's own classification, when the launch failed.
    pub fn launch_error(&self) -> Option<&LaunchErrorKind> {
        match self.kind() {
            StartErrorKind::Launch(error) => Some(error.kind()),
            _ => None,
        }
    }

    /// The server, the step that its start had reached, and the result of its cleanup.
    pub fn context(&self) -> &StartErrorContext {
        &self.0.0
    }
}

/// Lines on a server's standard output that were not JSON-RPC.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkippedLines {
    /// The number of there that were.
    pub count: u64,
    /// The beginning of the first.
    pub first: String,
}

/// The step that a start had reached when it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StartPhase {
    /// The launcher was fetching what the server needs.
    Prepare,
    /// The launcher was starting the server.
    Launch,
    /// The server was started and had not completed the handshake.
    Handshake,
}

/// The ways a start fails.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartErrorKind {
    /// The launcher could not start it.
    #[error("{}", .0.kind())]
    Launch(
        /// The reason.
        LaunchError,
    ),
    /// The server was not ready in time.
    #[error("not ready within {0:?}; raise the start-up timeout if it is known to be slow")]
    Timeout(
        /// The time that ran out.
        Duration,
    ),
    /// The launcher did not have in time what the server needs.
    #[error("not prepared within {0:?}; raise the prepare timeout if there is much to fetch")]
    PrepareTimeout(
        /// The time that ran out.
        Duration,
    ),
    /// The server exited before the handshake was complete.
    #[error("it exited before the handshake was complete ({0})")]
    Exited(
        /// The exit status.
        ExitStatus,
    ),
    /// The server closed its output before the handshake was complete.
    #[error("it closed its output before the handshake was complete")]
    OutputClosed,
    /// The server speaks no version of the protocol that this client speaks.
    #[error("no protocol version in common (the server speaks: {})", server.join(", "))]
    ProtocolVersion {
        /// The versions it speaks.
        server: Vec<String>,
    },
    /// The server answered the handshake with an error.
    #[error("it refused the handshake: {0}")]
    Refused(
        /// Its answer.
        Box<rmcp::ErrorData>,
    ),
    /// The server answered the handshake with something that is not the protocol.
    #[error("its answer to the handshake is not valid MCP: {0}")]
    Malformed(
        /// The problem with it.
        String,
    ),
    /// The application's maker of handlers panicked.
    #[error("its handler could not be made: what the application set as `handler` panicked")]
    Handler,
    /// The client was shut down while it started.
    #[error("the start was cancelled")]
    Cancelled,
}

fn describe(context: &StartErrorContext, kind: &StartErrorKind) -> String {
    let StartErrorContext {
        server,
        command,
        phase,
        elapsed,
        stderr_tail,
        skipped,
        cleanup,
        unfinished,
    } = context;
    let failed = match phase {
        StartPhase::Prepare => "could not be prepared",
        StartPhase::Launch => "could not be launched",
        StartPhase::Handshake => "failed in the handshake",
    };
    let mut text = format!("server `{server}` (`{command}`) {failed} after {elapsed:.1?}: {kind}");
    text.push_str(&super::call::tail(stderr_tail));
    if let Some(SkippedLines { count, first }) = skipped {
        let lines = if *count == 1 { "line" } else { "lines" };
        text.push_str(&format!(
            "; {count} {lines} on its standard output, which is for the protocol alone, were not JSON-RPC, the first: {first:?}"
        ));
    }
    if let Some(Err(leak)) = cleanup {
        text.push_str(&format!("; and {leak}"));
    }
    if !unfinished.is_empty() {
        let list = RemnantList(unfinished);
        text.push_str(&format!(
            "; still under way, and undone when it comes true: {list}"
        ));
    }
    text
}
