use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rmcp::ServiceError;
use thiserror::Error;

use crate::launch::{ErrorChain, ExitStatus};
use crate::terminate::EndReason;

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

pub(super) fn tail(lines: &[String]) -> String {
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
