use std::time::Duration;

use mcp_lifecycle_core::launch::{BoxError, ErrorChain};
use thiserror::Error;

pub(crate) type Result<T, E = ExecutorError> = std::result::Result<T, E>;

/// The failure of an operation of an executor.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "names and messages say it")]
pub enum ExecutorError {
    #[error("the executor at {peer} cannot be reached: {reason}")]
    Connect { peer: String, reason: String },
    /// The connection was lost and could not be resumed in time. The executor
    /// ends the session's processes when its own lease runs out.
    #[error("the connection to the executor was lost: {reason}")]
    Lost { reason: String },
    /// The session has ended, and with it every process but those that the executor reports as not
    /// proven gone.
    #[error("{reason}{}", doubt(*unproven))]
    SessionOver {
        reason: String,
        /// The number of processes that are not proven gone. The executor has named them, if that
        /// could be delivered.
        unproven: u64,
    },
    #[error("no answer to `{method}` within {after:?}")]
    Timeout {
        method: &'static str,
        after: Duration,
    },
    #[error("the executor refused `{method}`: {message} (code {code})")]
    Refused {
        method: &'static str,
        code: i64,
        message: String,
        /// A machine-readable kind, if the peer sent one: `notFound`, `limit`.
        kind: Option<String>,
        /// Directories that were searched for a program, if the peer reported them.
        searched: Vec<std::path::PathBuf>,
    },
    #[error("the executor's answer to `{method}` is not valid: {problem}")]
    Malformed {
        method: &'static str,
        problem: String,
    },
    /// The forced end was requested, but something lives on.
    #[error("{what}")]
    Unproven { what: String },
}

impl ExecutorError {
    pub(crate) fn lost(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Lost { reason }
    }
}

fn doubt(unproven: u64) -> String {
    match unproven {
        0 => String::new(),
        1 => "; one of its processes is not proven gone".to_owned(),
        many => format!("; {many} of its processes are not proven gone"),
    }
}

pub(crate) fn reason(error: impl Into<BoxError>) -> String {
    ErrorChain(&*error.into()).to_string()
}
