//! The errors of a manager's operations.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::client::error::start::StartError;
use crate::fleet::acquire_error::also;
use crate::fleet::outcome::RefreshReport;

/// A refresh failed.
#[derive(Debug, Error)]
#[error("manager `{manager}`: {kind}")]
pub struct RefreshError {
    manager: Arc<str>,
    kind: RefreshErrorKind,
}

/// The reason a refresh failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RefreshErrorKind {
    /// Two servers of the set have the same name. Nothing was changed.
    #[error("server `{server}` is declared twice")]
    Duplicate {
        /// The name.
        server: String,
    },
    /// The manager is shut down, or was while it refreshed.
    #[error("it is shut down")]
    ShutDown,
    /// Required servers are not ready. The others are as declared.
    #[error("{}", required(.failures))]
    Required {
        /// All of them.
        failures: Vec<RequiredFailure>,
        /// The outcome for the whole set.
        report: Box<RefreshReport>,
    },
}

impl RefreshError {
    pub(super) fn new(manager: &Arc<str>, kind: RefreshErrorKind) -> Self {
        let manager = Arc::clone(manager);
        Self { manager, kind }
    }

    /// The reason it failed.
    pub fn kind(&self) -> &RefreshErrorKind {
        &self.kind
    }

    /// The manager's name.
    pub fn manager(&self) -> &str {
        &self.manager
    }
}

/// A required server that is not ready.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RequiredFailure {
    /// Its name.
    pub server: String,
    /// The reason its start failed, if that is what happened.
    pub error: Option<StartError>,
    /// The failure, in words.
    pub why: String,
}

impl fmt::Display for RequiredFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.error {
            Some(error) => error.fmt(f),
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
#[error("server `{server}` {kind}")]
pub struct NotReadyError {
    server: String,
    kind: NotReadyErrorKind,
}

/// The reason a server is not ready for calls.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum NotReadyErrorKind {
    /// No server of that name is declared.
    #[error("is not declared")]
    NotDeclared,
    /// The manager is shut down.
    #[error("has ended: its manager is shut down")]
    ShutDown,
    /// The server was not ready in time.
    #[error("is not ready within {limit:?}{}", also(.last))]
    TimedOut {
        /// The time that ran out.
        limit: Duration,
        /// The last failure, if there was one.
        last: Option<String>,
    },
}

impl NotReadyError {
    pub(super) fn new(server: &str, kind: NotReadyErrorKind) -> Self {
        let server = server.to_owned();
        Self { server, kind }
    }

    /// The reason it is not.
    pub fn kind(&self) -> &NotReadyErrorKind {
        &self.kind
    }

    /// The server's name.
    pub fn server(&self) -> &str {
        &self.server
    }
}
