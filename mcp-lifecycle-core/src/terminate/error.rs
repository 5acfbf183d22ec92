use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::{EndReason, PhaseRecord};
use crate::launch::remnant::list;
use crate::launch::{Remnant, ServerIdentity};

/// The failure to prove that nothing of a server is left. Calling `terminate` again retries.
#[derive(Debug, Clone, Error)]
#[error("{}", describe(.0))]
pub struct TerminateError(Arc<TerminateErrorContext>);

/// The subject of a [`TerminateError`].
#[derive(Debug, Clone)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the field has its name")]
pub struct TerminateErrorContext {
    pub server: String,
    pub identity: ServerIdentity,
    pub reason: EndReason,
    /// The living remnants, as far as they are known.
    pub survivors: Vec<Remnant>,
    /// The reason that there is no proof, unless something simply lives.
    pub cause: Option<String>,
    /// The rungs that were climbed, in order.
    pub phases: Vec<PhaseRecord>,
    /// Time from the first step until the ladder gave up.
    pub took: Duration,
}

impl TerminateError {
    /// Creates the error of an attempt that was dropped, with its task.
    pub(super) fn task_lost(server: &str, identity: ServerIdentity, reason: EndReason) -> Self {
        TerminateErrorContext {
            server: server.to_owned(),
            identity,
            reason,
            survivors: Vec::new(),
            cause: Some(
                "the task of the termination is gone, with its runtime or by a panic; the server \
                 was killed and the proof is outstanding"
                    .to_owned(),
            ),
            phases: Vec::new(),
            took: Duration::ZERO,
        }
        .into()
    }

    /// Returns the server and its known remnants.
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
    let left = list(survivors, ", ");
    let why = match (survivors.is_empty(), cause) {
        (false, None) => format!("still alive: {left}"),
        (false, Some(cause)) => format!("still alive: {left} ({cause})"),
        (true, Some(cause)) => cause.to_owned(),
        (true, None) => "no proof before the deadline".to_owned(),
    };
    format!("server `{server}` ({identity}) is not proven gone after {took:.1?}: {why}")
}
