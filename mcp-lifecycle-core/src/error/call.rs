//! The failure of one call.

use std::time::Duration;

use rmcp::ServiceError;
use thiserror::Error;

use crate::{EndReason, ExitStatus};

/// A call to a server failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CallError {
    /// The client is ending; the server was told to cancel the call.
    #[error("the client of server `{server}` is ending ({reason})")]
    Ending {
        /// The server's name.
        server: String,
        /// Why it ends.
        reason: EndReason,
    },
    /// The server died while the call was in flight, or before it was made.
    #[error("server `{server}` died: {exit}{}", tail(.stderr_tail))]
    ServerDied {
        /// The server's name.
        server: String,
        /// How its main process ended.
        exit: ExitStatus,
        /// The last lines it wrote to standard error.
        stderr_tail: Vec<String>,
    },
    /// The server closed its output, so no answer can come any more.
    #[error("server `{server}` closed its output")]
    OutputClosed {
        /// The server's name.
        server: String,
    },
    /// No answer in time. The server was told to cancel the call.
    #[error("no answer from server `{server}` within {timeout:?}")]
    Timeout {
        /// The server's name.
        server: String,
        /// The time that ran out.
        timeout: Duration,
    },
    /// The answer is longer than the limit for one message and was discarded.
    #[error(
        "the answer of server `{server}` is over the limit of {limit} bytes for one message; \
         raise `TransportLimits::max_message` if it is meant to be so large"
    )]
    TooLarge {
        /// The server's name.
        server: String,
        /// The limit in bytes.
        limit: usize,
    },
    /// The answer is not a valid JSON-RPC message.
    #[error("the answer of server `{server}` is malformed: {problem}")]
    Malformed {
        /// The server's name.
        server: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The server does not read its input and the queue to it is full.
    #[error(
        "server `{server}` is not reading its input: {queued} bytes are queued, the limit is {limit}"
    )]
    NotReading {
        /// The server's name.
        server: String,
        /// How much is queued, in bytes.
        queued: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The server answered with an error.
    #[error("server `{server}` answered with an error")]
    Server {
        /// The server's name.
        server: String,
        /// Its answer.
        #[source]
        source: Box<rmcp::ErrorData>,
    },
    /// The protocol layer failed.
    #[error("the call to server `{server}` failed")]
    Protocol {
        /// The server's name.
        server: String,
        /// Its failure.
        #[source]
        source: Box<ServiceError>,
    },
}

/// The last line of standard error, as an addition to a message.
pub(super) fn tail(lines: &[String]) -> String {
    match lines.last() {
        Some(line) => format!("; its last words: {line}"),
        None => String::new(),
    }
}
