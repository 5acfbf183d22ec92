//! The outcome of a refresh for a declared set.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::client::error::start::StartError;
use crate::client::event::EndResult;
use crate::terminate::error::TerminateError;

/// The outcome of a refresh, server by server, in the order of their names.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RefreshReport {
    /// One entry for each server that is or was declared.
    pub servers: Vec<ServerOutcome>,
    /// The time it took.
    pub took: Duration,
}

/// The outcome of a refresh for one server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerOutcome {
    /// The server's name.
    pub server: Arc<str>,
    /// The outcome of its start; `None` when it was removed.
    pub start: Option<StartOutcome>,
    /// The outcome for the process it had, if that was ended.
    pub end: Option<Result<EndResult, TerminateError>>,
}

/// The outcome of a server's start.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum StartOutcome {
    /// The server was unchanged and keeps its process.
    Kept,
    /// The server was started and is ready.
    Ready,
    /// The server could not be started; its restart policy decides what follows.
    Failed(StartError),
    /// The server waits for its predecessor, which is not proven gone.
    Blocked,
    /// A later refresh, or the shutdown, overtook it.
    Cancelled,
    /// The server was started, and died before this refresh was over.
    Died(String),
}

impl RefreshReport {
    /// The number of servers that are ready, kept or new.
    pub fn ready(&self) -> usize {
        let ready =
            |s: &&ServerOutcome| matches!(s.start, Some(StartOutcome::Kept | StartOutcome::Ready));
        self.servers.iter().filter(ready).count()
    }

    /// The servers that are not ready although they are declared.
    pub fn failed(&self) -> impl Iterator<Item = &ServerOutcome> {
        self.servers.iter().filter(|server| {
            use StartOutcome::{Blocked, Cancelled, Died, Failed};
            matches!(
                server.start,
                Some(Failed(_) | Died(_) | Blocked | Cancelled)
            )
        })
    }

    /// The outcome for one server.
    pub fn get(&self, name: &str) -> Option<&ServerOutcome> {
        self.servers.iter().find(|outcome| &*outcome.server == name)
    }
}

impl fmt::Display for RefreshReport {
    /// One line: the summary that a user interface shows.
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
