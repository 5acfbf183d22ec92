//! Errors of an executor.

use std::time::Duration;

use mcp_lifecycle_core::launch::BoxError;
use thiserror::Error;

/// An operation of an executor failed.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum ExecutorError {
    /// The executor could not be reached, or refused the connection.
    #[error("the executor at {peer} cannot be reached")]
    Connect {
        /// Where it was looked for, without secrets.
        peer: String,
        /// Why.
        #[source]
        source: SharedError,
    },
    /// The connection was lost and could not be resumed in time. The executor
    /// ends the session's processes when its own lease runs out.
    #[error("the connection to the executor was lost: {reason}")]
    Lost {
        /// How.
        reason: String,
    },
    /// The session is over, and with it every process but those that are not proven
    /// gone: its executor says so.
    #[error("{reason}{}", Doubt(*unproven))]
    SessionOver {
        /// How that is known.
        reason: String,
        /// How many processes are not proven gone. Which ones the executor has told, if
        /// that could be delivered.
        unproven: u64,
    },
    /// No answer in time.
    #[error("no answer to `{method}` within {after:?}")]
    Timeout {
        /// The request.
        method: &'static str,
        /// The deadline that ran out.
        after: Duration,
    },
    /// The executor answered with an error.
    #[error("the executor refused `{method}`: {message} (code {code})")]
    Refused {
        /// The request.
        method: &'static str,
        /// The protocol's code.
        code: i64,
        /// The executor's words.
        message: String,
        /// A word for programs, where the peer gave one: `notFound`, `limit`.
        kind: Option<String>,
        /// Where a program was looked for, if that is what failed and the peer
        /// said so.
        searched: Vec<std::path::PathBuf>,
    },
    /// The executor broke its protocol.
    #[error("the executor's answer to `{method}` is not valid: {problem}")]
    Malformed {
        /// The request.
        method: &'static str,
        /// The fault in the answer.
        problem: String,
    },
    /// The executor has no means for this.
    #[error("the executor cannot {what}")]
    Unsupported {
        /// Completes the sentence "cannot …".
        what: &'static str,
    },
    /// No member of a set can take the process.
    #[error("no executor can take it: {why}")]
    NoPlace {
        /// Why, member by member.
        why: String,
    },
    /// The order was given and something lives on.
    #[error("{what}")]
    Unproven {
        /// The known facts.
        what: String,
    },
}

/// Text on processes that are not proven gone.
struct Doubt(u64);

impl std::fmt::Display for Doubt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            0 => Ok(()),
            1 => f.write_str("; one of its processes is not proven gone"),
            many => write!(f, "; {many} of its processes are not proven gone"),
        }
    }
}

/// An error that several callers share.
#[derive(Debug, Clone, Error)]
#[error(transparent)]
pub struct SharedError(std::sync::Arc<dyn std::error::Error + Send + Sync + 'static>);

impl SharedError {
    pub(crate) fn new(error: impl Into<BoxError>) -> Self {
        Self(std::sync::Arc::from(error.into()))
    }
}
