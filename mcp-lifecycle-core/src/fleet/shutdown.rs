//! The shutdown of a manager or a pool, and how it went.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::engine::{Engine, Key};
use super::observe::outcome::EndResult;
use crate::terminate::error::TerminateError;

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

/// A shutdown ended without the proof that every server is gone.
#[derive(Debug, Clone, Error)]
#[error("{}", unproven(.owner, .ends))]
#[non_exhaustive]
pub struct ShutdownError {
    /// Whose servers they are.
    pub owner: Arc<str>,
    /// How each server ended.
    pub ends: Vec<ServerEnd>,
    /// How long it took.
    pub took: Duration,
}

fn unproven(owner: &str, ends: &[ServerEnd]) -> String {
    let failed: Vec<_> = ends
        .iter()
        .filter_map(|end| end.result.as_ref().err())
        .collect();
    let mut text = format!(
        "{} of {} servers of `{owner}` are not proven gone",
        failed.len(),
        ends.len()
    );
    for error in failed {
        text.push_str(&format!("\n  {error}"));
    }
    text
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
