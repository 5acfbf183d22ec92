//! The failure of one call.

use std::time::Duration;

use rmcp::ServiceError;
use thiserror::Error;

use crate::launch::exit::ExitStatus;
use crate::terminate::report::EndReason;

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

/// How many of the last lines of standard error a message shows, and how much of each:
/// the cause is rarely in the very last one.
const LAST_WORDS: (usize, usize) = (5, 300);

/// The last lines of standard error, as an addition to a message.
pub(super) fn tail(lines: &[String]) -> String {
    let (most, longest) = LAST_WORDS;
    let said = lines.iter().filter(|line| !line.trim().is_empty());
    let mut last: Vec<_> = said
        .rev()
        .take(most)
        .map(|line| cut(line, longest))
        .collect();
    last.reverse();
    match last.is_empty() {
        true => String::new(),
        false => format!("; its last words: {}", last.join(" | ")),
    }
}

/// The beginning of a line, marked where it is cut.
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
    fn the_last_words_are_the_last_lines_and_bounded() {
        let lines =
            |lines: &[&str]| tail(&lines.iter().map(|l| (*l).to_owned()).collect::<Vec<_>>());
        assert_eq!(lines(&[]), "");
        assert_eq!(lines(&["one"]), "; its last words: one");
        assert_eq!(
            lines(&["0", "1", "404 Not Found", "", "3", "4", "see the log"]),
            "; its last words: 1 | 404 Not Found | 3 | 4 | see the log"
        );
        let long = lines(&[&"é".repeat(4000)]);
        assert!(long.chars().count() < 400 && long.ends_with('…'), "{long}");
    }
}
