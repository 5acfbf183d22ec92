//! Why there is no lease.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::client::error::start::StartError;
use crate::terminate::report::EndReason;

/// A server could not be leased.
#[derive(Debug, Clone)]
pub struct AcquireError {
    context: AcquireErrorContext,
    kind: AcquireErrorKind,
}

/// What an [`AcquireError`] is about.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AcquireErrorContext {
    /// The server's name.
    pub server: Arc<str>,
    /// Who wanted it: the pool and the scope.
    pub owner: Arc<str>,
}

/// Why a server could not be leased.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum AcquireErrorKind {
    /// The pool is shut down.
    #[error("the pool is shut down")]
    Closed,
    /// What it belonged to ended while the caller waited, or before.
    #[error("it was ended ({0})")]
    Retired(
        /// Why.
        EndReason,
    ),
    /// It could not be started.
    #[error("{0}")]
    Start(
        /// Why not.
        StartError,
    ),
    /// It died, or could not be started, while the caller waited.
    #[error("{0}")]
    Failed(
        /// What happened.
        String,
    ),
    /// It failed lately, and is not started again before the caller's time is up.
    #[error("it failed {} and may start again in {retry_in:.1?}{}", times(*.failures), also(.last))]
    Backoff {
        /// When it may start again.
        retry_in: Duration,
        /// Failures in a row.
        failures: u32,
        /// What went wrong last.
        last: Option<String>,
    },
    /// It failed too often.
    #[error("it failed {}, which is its limit{}{}", times(*.failures), renewed(.retry_in), also(.last))]
    Exhausted {
        /// When it may start again; `None` is never.
        retry_in: Option<Duration>,
        /// Failures in a row.
        failures: u32,
        /// What went wrong last.
        last: Option<String>,
    },
    /// An earlier process of the same server is not proven gone.
    #[error("an earlier process of it is not proven gone{}", also(.0))]
    Unproven(
        /// What may be left.
        Option<String>,
    ),
    /// A limit was reached, and nothing that holds it is idle.
    #[error("the limit of {limit} live servers {} is reached; held by: {}", of(*.of_server), holders.join(", "))]
    Capacity {
        /// The limit.
        limit: usize,
        /// Whether it is the limit of this server, rather than of the pool.
        of_server: bool,
        /// What holds it: server, owner, leases.
        holders: Vec<String>,
    },
    /// The caller's time is up.
    #[error("not available within {0:?}")]
    TimedOut(
        /// The time.
        Duration,
    ),
}

impl AcquireError {
    pub(super) fn new(server: &str, owner: &Arc<str>, kind: AcquireErrorKind) -> Self {
        let context = AcquireErrorContext {
            server: server.into(),
            owner: Arc::clone(owner),
        };
        Self { context, kind }
    }

    /// Why there is no lease.
    pub fn kind(&self) -> &AcquireErrorKind {
        &self.kind
    }

    /// Which server it is, and who wanted it.
    pub fn context(&self) -> &AcquireErrorContext {
        &self.context
    }
}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AcquireErrorContext { server, owner } = &self.context;
        write!(
            f,
            "no lease of server `{server}` for `{owner}`: {}",
            self.kind
        )
    }
}

impl std::error::Error for AcquireError {}

pub(super) fn also(last: &Option<String>) -> String {
    last.as_ref()
        .map(|last| format!("; what went wrong last: {last}"))
        .unwrap_or_default()
}

fn times(failures: u32) -> String {
    match failures {
        1 => "once".to_owned(),
        failures => format!("{failures} times in a row"),
    }
}

fn renewed(retry_in: &Option<Duration>) -> String {
    match retry_in {
        Some(wait) => format!(" for another {wait:.0?}"),
        None => String::new(),
    }
}

fn of(server: bool) -> &'static str {
    if server {
        "of this server"
    } else {
        "of the pool"
    }
}
