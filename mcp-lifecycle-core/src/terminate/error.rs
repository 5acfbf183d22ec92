//! The failure of a termination.

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
#[error(
    "server `{server}` ({identity}) is not proven gone after {took:.1?}: {}",
    describe(.survivors, .cause.as_deref())
)]
#[non_exhaustive]
pub struct TerminateError {
    /// The server's name in its specification.
    pub server: String,
    /// Who it is.
    pub identity: ServerIdentity,
    /// Why it was being ended.
    pub reason: EndReason,
    /// What is alive, as far as anybody can tell.
    pub survivors: Vec<Remnant>,
    /// Why there is no proof, where that is not simply that something lives.
    pub cause: Option<String>,
    /// The rungs that were climbed, in order.
    pub phases: Vec<PhaseRecord>,
    /// From the first step until the ladder gave up.
    pub took: Duration,
}

fn describe(survivors: &[Remnant], cause: Option<&str>) -> String {
    match (survivors.is_empty(), cause) {
        (false, None) => format!("still alive: {}", RemnantList(survivors)),
        (false, Some(cause)) => format!("still alive: {} ({cause})", RemnantList(survivors)),
        (true, Some(cause)) => cause.to_owned(),
        (true, None) => "no proof before the deadline".to_owned(),
    }
}
