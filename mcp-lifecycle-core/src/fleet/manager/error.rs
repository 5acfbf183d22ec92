//! What can go wrong with a manager's operations.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::client::error::start::StartError;
use crate::fleet::observe::outcome::RefreshReport;
use crate::launch::error::ErrorChain;

/// A refresh failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RefreshError {
    /// Two servers of the set have the same name. Nothing was changed.
    #[error("server `{server}` is declared twice")]
    Duplicate {
        /// The name.
        server: String,
    },
    /// The manager is shut down, or was while it refreshed.
    #[error("manager `{manager}` is shut down")]
    ShutDown {
        /// The manager's name.
        manager: String,
    },
    /// Required servers are not ready. The others are as declared.
    #[error("{}", required(.failures))]
    Required {
        /// All of them.
        failures: Vec<RequiredFailure>,
        /// What became of the whole set.
        report: Box<RefreshReport>,
    },
}

/// A required server that is not ready.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RequiredFailure {
    /// Its name.
    pub server: String,
    /// Why its start failed, if that is what happened.
    pub error: Option<Arc<StartError>>,
    /// What happened, in words.
    pub why: String,
}

impl fmt::Display for RequiredFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.error {
            Some(error) => ErrorChain(&**error).fmt(f),
            None => write!(f, "server `{}`: {}", self.server, self.why),
        }
    }
}

fn required(failures: &[RequiredFailure]) -> String {
    let mut text = match failures.len() {
        1 => "1 required server is not ready".to_owned(),
        n => format!("{n} required servers are not ready"),
    };
    for failure in failures {
        text.push_str(&format!("\n  {failure}"));
    }
    text
}

/// A server is not ready for calls.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum NotReadyError {
    /// No server of that name is declared.
    #[error("no server `{server}` is declared")]
    NotDeclared {
        /// The name.
        server: String,
    },
    /// The manager is shut down.
    #[error("server `{server}` has ended: its manager is shut down")]
    ShutDown {
        /// The server's name.
        server: String,
    },
    /// It was not ready in time.
    #[error("server `{server}` is not ready within {limit:?}{}", last.as_ref().map(|e| format!("; what went wrong last: {e}")).unwrap_or_default())]
    TimedOut {
        /// The server's name.
        server: String,
        /// The time that ran out.
        limit: Duration,
        /// What went wrong last, if anything did.
        last: Option<String>,
    },
}
