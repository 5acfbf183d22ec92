//! The failure of a termination.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::report::{EndReason, PhaseRecord};
use crate::launch::identity::ServerIdentity;
use crate::launch::remnant::{Remnant, RemnantList};

/// A termination ended without the proof that nothing is left.
///
/// Cloned to every caller that shared the termination. The launcher still owns
/// the means to end the server; calling `terminate` again tries again.
#[derive(Debug, Clone, Error)]
#[error("{}", describe(.0))]
pub struct TerminateError(Arc<TerminateErrorContext>);

/// The subject of a [`TerminateError`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TerminateErrorContext {
    /// The server's name in its specification.
    pub server: String,
    /// The identity of the server.
    pub identity: ServerIdentity,
    /// The reason it was being ended.
    pub reason: EndReason,
    /// The remnants that are alive, as far as anybody can tell.
    pub survivors: Vec<Remnant>,
    /// The reason there is no proof, where that is not simply that something lives.
    pub cause: Option<String>,
    /// The rungs that were climbed, in order.
    pub phases: Vec<PhaseRecord>,
    /// From the first step until the ladder gave up.
    pub took: Duration,
}

impl TerminateError {
    /// The server whose end is not proven, and what is left, as far as it is known.
    pub fn context(&self) -> &TerminateErrorContext {
        &self.0
    }
}

impl From<TerminateErrorContext> for TerminateError {
    fn from(context: TerminateErrorContext) -> Self {
        Self(Arc::new(context))
    }
}

fn describe(error: &TerminateErrorContext) -> String {
    let TerminateErrorContext {
        server,
        identity,
        survivors,
        cause,
        took,
        ..
    } = error;
    let left = RemnantList(survivors);
    let why = match (survivors.is_empty(), cause) {
        (false, None) => format!("still alive: {left}"),
        (false, Some(cause)) => format!("still alive: {left} ({cause})"),
        (true, Some(cause)) => cause.to_owned(),
        (true, None) => "no proof before the deadline".to_owned(),
    };
    format!("server `{server}` ({identity}) is not proven gone after {took:.1?}: {why}")
}
