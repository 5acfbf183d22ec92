use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::client::{EndResult, StartError};
use crate::terminate::TerminateError;

/// The outcome of a refresh for each server, ordered by name.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RefreshReport {
    /// One entry for each server that is or was declared.
    pub servers: Vec<ServerOutcome>,
    /// The duration of the refresh.
    pub took: Duration,
}

/// The outcome of a refresh for one server.
#[derive(Debug, Clone)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the field has its name")]
pub struct ServerOutcome {
    pub server: Arc<str>,
    /// `true` if the refresh fails without it.
    pub required: bool,
    /// The outcome of its start; `None` when it was removed.
    pub start: Option<StartOutcome>,
    /// The outcome for its previous process, if that was ended.
    pub end: Option<Result<EndResult, TerminateError>>,
}

/// The outcome of a server's start.
#[derive(Debug, Clone, displaydoc::Display)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the outcome has its name")]
pub enum StartOutcome {
    /// The server was unchanged and keeps its process.
    #[displaydoc("it keeps its process")]
    Kept,
    #[displaydoc("it is ready")]
    Ready,
    /// The server could not be started; its restart policy decides what follows.
    #[displaydoc("{0}")]
    Failed(StartError),
    /// The server waits for its predecessor, which is not proven gone.
    #[displaydoc("its predecessor is not proven gone")]
    Blocked,
    /// A later refresh or the shutdown replaced this start.
    #[displaydoc("its start was cancelled")]
    Cancelled,
    /// The server was started, but died before the refresh was over.
    #[displaydoc("{0}")]
    Died(String),
}

impl RefreshReport {
    /// Returns the number of servers that are ready, kept or new.
    pub fn ready(&self) -> usize {
        let declared = self.servers.iter().filter(|server| server.start.is_some());
        declared.count() - self.failed().count()
    }

    /// Lists the declared servers that are not ready.
    pub fn failed(&self) -> impl Iterator<Item = &ServerOutcome> {
        use StartOutcome::{Kept, Ready};
        let failed = |start: &StartOutcome| !matches!(start, Kept | Ready);
        let servers = self.servers.iter();
        servers.filter(move |server| server.start.as_ref().is_some_and(failed))
    }

    /// Returns the outcome for one server.
    pub fn get(&self, name: &str) -> Option<&ServerOutcome> {
        self.servers.iter().find(|outcome| &*outcome.server == name)
    }
}

impl fmt::Display for RefreshReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |wanted: fn(&StartOutcome) -> bool| {
            self.servers
                .iter()
                .filter(|s| s.start.as_ref().is_some_and(wanted))
                .count()
        };
        let kept = count(|start| matches!(start, StartOutcome::Kept));
        let ended = self.servers.iter().filter(|s| s.end.is_some()).count();
        let cancelled = count(|start| matches!(start, StartOutcome::Cancelled));
        let failed = self.failed().count() - cancelled;
        let ready = self.ready();
        write!(
            f,
            "{ready} ready ({kept} kept), {failed} failed, {cancelled} cancelled, {ended} ended, in {:.1?}",
            self.took
        )
    }
}

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
