use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::client::EndResult;
use crate::terminate::TerminateError;

/// The report of a shutdown. As an `Ok` result, the proof that every server has ended.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// The owner of the servers.
    pub owner: Arc<str>,
    /// The end of each server that had a process when the shutdown began.
    pub ends: Vec<ServerEnd>,
    /// The duration of the shutdown, which is the slowest server's.
    pub took: Duration,
}

/// The end of one server.
#[derive(Debug, Clone)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the field has its name")]
pub struct ServerEnd {
    pub server: Arc<str>,
    pub owner: Arc<str>,
    pub result: Result<EndResult, TerminateError>,
}

/// The failure to prove that every server is gone.
#[derive(Debug, Clone, Error)]
#[error("{}", .0)]
pub struct ShutdownError(ShutdownReport);

impl ShutdownError {
    /// Returns the end of each server, or the reason it is not proven.
    pub fn report(&self) -> &ShutdownReport {
        &self.0
    }
}

impl ShutdownReport {
    pub(super) fn proven(self) -> Result<Self, ShutdownError> {
        match self.is_proven() {
            true => Ok(self),
            false => Err(ShutdownError(self)),
        }
    }

    pub(super) fn is_proven(&self) -> bool {
        self.ends.iter().all(|end| end.result.is_ok())
    }
}

impl fmt::Display for ShutdownReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { owner, ends, took } = self;
        let unproven = ends.iter().filter(|end| end.result.is_err()).count();
        let servers = match ends.len() {
            1 => "1 server".to_owned(),
            n => format!("{n} servers"),
        };
        match unproven {
            0 => write!(f, "{servers} of `{owner}` ended in {took:.1?}")?,
            _ => write!(
                f,
                "not proven gone after {took:.1?}: {unproven} of {servers} of `{owner}`"
            )?,
        }
        ends.iter().try_for_each(|end| write!(f, "\n  {end}"))
    }
}

impl fmt::Display for ServerEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}: ", self.server, self.owner)?;
        match &self.result {
            Ok(result) => write!(f, "{result}"),
            Err(error) => write!(f, "{error}"),
        }
    }
}
