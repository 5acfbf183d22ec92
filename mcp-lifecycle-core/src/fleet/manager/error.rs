use std::sync::Arc;

use thiserror::Error;

use crate::fleet::{RefreshReport, ServerOutcome, StartOutcome};

/// The failure of a refresh.
#[derive(Debug, Error)]
#[error("manager `{manager}`: {kind}")]
pub struct RefreshError {
    manager: Arc<str>,
    kind: RefreshErrorKind,
}

/// The reason a refresh failed.
#[derive(Debug, Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "names and messages say it")]
pub enum RefreshErrorKind {
    /// Nothing was changed.
    #[error("server `{server}` is declared twice")]
    Duplicate { server: String },
    #[error("it is shut down")]
    ShutDown,
    /// The other servers are as declared.
    #[error("{}", required(.0))]
    Required(Box<RefreshReport>),
}

impl RefreshError {
    pub(super) fn new(manager: &Arc<str>, kind: RefreshErrorKind) -> Self {
        let manager = Arc::clone(manager);
        Self { manager, kind }
    }

    /// Returns the reason.
    pub fn kind(&self) -> &RefreshErrorKind {
        &self.kind
    }

    /// Returns the manager's name.
    pub fn manager(&self) -> &str {
        &self.manager
    }
}

fn required(report: &RefreshReport) -> String {
    let failures: Vec<_> = report.failed().filter(|server| server.required).collect();
    let mut text = match failures.len() {
        1 => "1 required server is not ready".to_owned(),
        n => format!("{n} required servers are not ready"),
    };
    for ServerOutcome { server, start, .. } in failures {
        text.push_str(&match start {
            Some(StartOutcome::Failed(error)) => format!("\n  {error}"),
            Some(start) => format!("\n  server `{server}`: {start}"),
            None => continue,
        });
    }
    text
}
