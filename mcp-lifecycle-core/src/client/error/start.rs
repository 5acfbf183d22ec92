use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::launch::remnant::list;
use crate::launch::{ExitStatus, LaunchError, LaunchErrorKind, Remnant};
use crate::terminate::TerminationOutcome;

/// The failure of a start. Everything that had been started was ended. Clones are cheap.
#[derive(Debug, Clone, Error)]
#[error("{}", describe(&.0.0, &.0.1))]
pub struct StartError(Arc<(StartErrorContext, StartErrorKind)>);

/// The subject of a [`StartError`].
#[derive(Debug)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the field has its name")]
pub struct StartErrorContext {
    pub server: String,
    /// Its command, for people.
    pub command: String,
    pub phase: StartPhase,
    pub elapsed: Duration,
    pub stderr_tail: Vec<String>,
    /// The lines on its standard output that were not the protocol, if any.
    pub skipped: Option<SkippedLines>,
    /// The end of what had been started; `None` if the launch returned no server.
    pub cleanup: Option<TerminationOutcome>,
    /// See [`ServerLauncher::unfinished`](crate::launch::ServerLauncher::unfinished).
    pub unfinished: Vec<Remnant>,
}

impl StartError {
    pub(crate) fn new(context: StartErrorContext, kind: StartErrorKind) -> Self {
        Self(Arc::new((context, kind)))
    }

    /// Returns the kind of failure.
    pub fn kind(&self) -> &StartErrorKind {
        &self.0.1
    }

    /// Returns the launcher's classification of a failed launch.
    pub fn launch_error(&self) -> Option<&LaunchErrorKind> {
        match self.kind() {
            StartErrorKind::Launch(error) => Some(error.kind()),
            _ => None,
        }
    }

    /// Returns the server, the step that failed, and the result of the cleanup.
    pub fn context(&self) -> &StartErrorContext {
        &self.0.0
    }
}

/// Lines on a server's standard output that were not JSON-RPC.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkippedLines {
    /// The number of lines.
    pub count: u64,
    /// The beginning of the first.
    pub first: String,
}

/// The step of a start that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the step has its name")]
pub enum StartPhase {
    Prepare,
    Launch,
    /// The server was started, but the handshake was not complete.
    Handshake,
}

/// The kinds of failures.
#[derive(Debug, Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "names and messages say it")]
pub enum StartErrorKind {
    #[error("{}", .0.kind())]
    Launch(LaunchError),
    #[error("not ready within {0:?}; raise the start-up timeout if it is known to be slow")]
    Timeout(Duration),
    #[error("not prepared within {0:?}; raise the prepare timeout if there is much to fetch")]
    PrepareTimeout(Duration),
    #[error("it exited before the handshake was complete ({0})")]
    Exited(ExitStatus),
    #[error("it closed its output before the handshake was complete")]
    OutputClosed,
    #[error("it closed its input before the handshake was complete")]
    InputClosed,
    #[error("no protocol version in common (the server speaks: {})", server.join(", "))]
    ProtocolVersion { server: Vec<String> },
    #[error("it refused the handshake: {0}")]
    Refused(Box<rmcp::ErrorData>),
    #[error("its answer to the handshake is not valid MCP: {0}")]
    Malformed(String),
    #[error("its handler could not be made: the application's `handler` panicked")]
    Handler,
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
        let list = list(unfinished, ", ");
        text.push_str(&format!(
            "; still under way, and undone when it comes true: {list}"
        ));
    }
    text
}
