//! The shutdown of a manager or a pool, and how it went.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::engine::{Engine, Key};
use crate::client::event::EndResult;
use crate::terminate::error::TerminateError;

/// The report of a shutdown: as the result of one, the proof that every server has ended.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// The owner of the servers.
    pub owner: Arc<str>,
    /// The end of each server that had a process when the shutdown began.
    pub ends: Vec<ServerEnd>,
    /// The time it took: the slowest server's time, not the sum.
    pub took: Duration,
}

/// The end of one server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerEnd {
    /// The server's name.
    pub server: Arc<str>,
    /// The owner of the server.
    pub owner: Arc<str>,
    /// The evidence of its end.
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

/// A shutdown ended without the proof that every server is gone.
#[derive(Debug, Clone, Error)]
#[error("{}", .0)]
pub struct ShutdownError(ShutdownReport);

impl ShutdownError {
    /// The end of each server, or the reason it is not proven.
    pub fn report(&self) -> &ShutdownReport {
        &self.0
    }
}

impl ShutdownReport {
    /// The proof, if it is one of every server.
    pub(super) fn proven(self) -> Result<Self, ShutdownError> {
        match self.ends.iter().all(|end| end.result.is_ok()) {
            true => Ok(self),
            false => Err(ShutdownError(self)),
        }
    }
}

/// One line for the whole, and one for each server.
impl fmt::Display for ShutdownReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { owner, ends, took } = self;
        let unproven = ends.iter().filter(|end| end.result.is_err()).count();
        match unproven {
            0 => write!(f, "{} servers of `{owner}` ended in {took:.1?}", ends.len())?,
            _ => write!(
                f,
                "{unproven} of {} servers of `{owner}` are not proven gone after {took:.1?}",
                ends.len()
            )?,
        }
        ends.iter().try_for_each(|end| write!(f, "\n  {end}"))
    }
}

/// `files of agent: ended (shutdown) after 1.2ms: exit code 0`.
impl fmt::Display for ServerEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}: ", self.server, self.owner)?;
        match &self.result {
            Ok(result) => write!(f, "{result}"),
            Err(error) => write!(f, "{error}"),
        }
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
            server: Arc::clone(&end.record.server),
            owner: Arc::clone(&end.record.owner),
            result: end.result.clone(),
        })
        .collect();
    let report = ShutdownReport {
        owner: Arc::clone(owner),
        ends,
        took: closed.took,
    };
    report.proven()
}
