//! What became of a set of servers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::ShutdownError;
use crate::account::EndResult;
use crate::error::{StartError, TerminateError};
use crate::slot::engine::{Engine, Key};

/// What a refresh did, server by server, in the order of their names.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RefreshReport {
    /// One entry for each server that is or was declared.
    pub servers: Vec<ServerOutcome>,
    /// How long it took.
    pub took: Duration,
}

/// What a refresh did with one server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerOutcome {
    /// The server's name.
    pub server: Arc<str>,
    /// What became of its start; `None` when it was removed.
    pub start: Option<StartOutcome>,
    /// What became of the process it had, if that was ended.
    pub end: Option<Result<EndResult, TerminateError>>,
}

/// What became of the start of a server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum StartOutcome {
    /// It was unchanged and keeps its process.
    Kept,
    /// It was started and is ready.
    Ready,
    /// It could not be started; its restart policy decides what follows.
    Failed(Arc<StartError>),
    /// It waits for its predecessor, which is not proven gone.
    Blocked,
    /// A later refresh, or the shutdown, overtook it.
    Cancelled,
    /// It was started, and died before this refresh was over.
    Died(String),
}

impl RefreshReport {
    /// How many servers are ready, kept or new.
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

    /// What became of one server.
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

/// The proof that every server has ended.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// How each server ended that had a process when the shutdown began.
    pub ends: Vec<ServerEnd>,
    /// How long it took: the slowest server's time, not the sum.
    pub took: Duration,
}

/// How one server ended.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerEnd {
    /// The server's name.
    pub server: Arc<str>,
    /// Whose it was.
    pub owner: Arc<str>,
    /// What is known of its end.
    pub result: Result<EndResult, TerminateError>,
}

impl ShutdownReport {
    /// The server that took longest, and how long.
    pub fn slowest(&self) -> Option<(&str, Duration)> {
        let took = |end: &ServerEnd| match &end.result {
            Ok(EndResult::Proven(report)) => report.took,
            _ => Duration::ZERO,
        };
        let slowest = self.ends.iter().max_by_key(|end| took(end))?;
        Some((&slowest.server, took(slowest)))
    }
}

/// Shuts an engine down and says how that went.
pub(crate) async fn shutdown<K: Key>(
    engine: &Arc<Engine<K>>,
    owner: &Arc<str>,
    within: Duration,
) -> Result<ShutdownReport, ShutdownError> {
    let closed = engine.close(within).await;
    let ends: Vec<_> = closed
        .ends
        .iter()
        .map(|end| ServerEnd {
            server: Arc::clone(&end.card.server),
            owner: Arc::clone(&end.card.owner),
            result: end.result.clone(),
        })
        .collect();
    let took = closed.took;
    if ends.iter().any(|end| end.result.is_err()) {
        return Err(ShutdownError {
            owner: Arc::clone(owner),
            ends,
            took,
        });
    }
    Ok(ShutdownReport { ends, took })
}
