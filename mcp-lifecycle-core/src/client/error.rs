use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rmcp::ServiceError;
use thiserror::Error;

use crate::launch::remnant::list;
use crate::launch::{ErrorChain, ExitStatus, LaunchError, Remnant};
use crate::terminate::{EndReason, TerminationOutcome};

/// The failure of a call.
#[derive(Debug, Error)]
#[error("{context}: {kind}")]
pub struct CallError {
    context: CallErrorContext,
    kind: CallErrorKind,
}

/// The subject of a [`CallError`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CallErrorContext {
    /// The server's name.
    pub server: Arc<str>,
    /// The tool or method that was called, if it is known: ``tool `echo` ``.
    pub call: Option<Box<str>>,
}

/// The reason a call failed.
#[derive(Debug, Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "names and messages say it")]
pub enum CallErrorKind {
    #[error("the client is ending ({0})")]
    Ending(EndReason),
    #[error("the server died: {exit}{}", tail(.stderr_tail))]
    ServerDied {
        exit: ExitStatus,
        stderr_tail: Vec<String>,
    },
    #[error("the server closed its output")]
    OutputClosed,
    #[error("the server closed its input")]
    InputClosed,
    /// No answer in time. The server was told to cancel the call.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    #[error(
        "the answer is over the limit of {limit} bytes for one message; raise \
         `TransportLimits::max_message` if it is meant to be so large"
    )]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    #[error("the answer is malformed: {0}")]
    Malformed(String),
    #[error("the server is not reading its input: {queued} bytes are queued, the limit is {limit}")]
    NotReading {
        queued: usize,
        /// The limit in bytes.
        limit: usize,
    },
    #[error("the server answered with an error: {0}")]
    Server(Box<rmcp::ErrorData>),
    #[error("the call failed: {}", ErrorChain(&**.0))]
    Protocol(Box<ServiceError>),
}

impl CallError {
    pub(crate) fn new(server: &Arc<str>, call: Option<&str>, kind: CallErrorKind) -> Self {
        let context = CallErrorContext {
            server: Arc::clone(server),
            call: call.map(Into::into),
        };
        Self { context, kind }
    }

    /// Returns the kind of failure.
    pub fn kind(&self) -> &CallErrorKind {
        &self.kind
    }

    /// Returns the server and the call.
    pub fn context(&self) -> &CallErrorContext {
        &self.context
    }
}

impl fmt::Display for CallErrorContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.call {
            Some(call) => write!(f, "{call} of server `{}`", self.server),
            None => write!(f, "server `{}`", self.server),
        }
    }
}

const SHOWN: (usize, usize) = (5, 300);

fn tail(lines: &[String]) -> String {
    let (most, longest) = SHOWN;
    let said = lines.iter().filter(|line| !line.trim().is_empty());
    let mut last: Vec<_> = said
        .rev()
        .take(most)
        .map(|line| cut(line, longest))
        .collect();
    last.reverse();
    match last.is_empty() {
        true => String::new(),
        false => format!("; it wrote last: {}", last.join(" | ")),
    }
}

fn cut(line: &str, longest: usize) -> String {
    match line.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

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
    text.push_str(&tail(stderr_tail));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_shown_and_bounded() {
        let lines =
            |lines: &[&str]| tail(&lines.iter().map(|l| (*l).to_owned()).collect::<Vec<_>>());
        assert_eq!(lines(&[]), "");
        assert_eq!(lines(&["one"]), "; it wrote last: one");
        assert_eq!(
            lines(&["0", "1", "404 Not Found", "", "3", "4", "see the log"]),
            "; it wrote last: 1 | 404 Not Found | 3 | 4 | see the log"
        );
        let long = lines(&[&"é".repeat(4000)]);
        assert!(long.chars().count() < 400 && long.ends_with('…'), "{long}");
    }
}
