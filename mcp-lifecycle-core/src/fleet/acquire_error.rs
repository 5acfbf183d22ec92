//! The reason there is no lease.

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

/// The subject of an [`AcquireError`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AcquireErrorContext {
    /// The server's name.
    pub server: Arc<str>,
    /// The owner that wanted it: the pool and the scope.
    pub owner: Arc<str>,
}

/// The reason a server could not be leased.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum AcquireErrorKind {
    /// The pool is shut down.
    #[error("the pool is shut down")]
    Closed,
    /// The owner of the server ended while the caller waited, or before.
    #[error("it was ended ({0})")]
    Retired(
        /// The reason.
        EndReason,
    ),
    /// The server could not be started.
    #[error("{0}")]
    Start(
        /// The reason.
        StartError,
    ),
    /// The server died, or could not be started, while the caller waited.
    #[error("{0}")]
    Failed(
        /// The event itself.
        String,
    ),
    /// The server failed lately, and is not started again before the caller's time is up.
    #[error("it failed {} and may start again in {retry_in:.1?}{}", times(*.failures), also(.last))]
    Backoff {
        /// The time until it may start again.
        retry_in: Duration,
        /// Failures in a row.
        failures: u32,
        /// The last failure.
        last: Option<String>,
    },
    /// The server failed too often.
    #[error("it failed {}, which is its limit{}{}", times(*.failures), renewed(.retry_in), also(.last))]
    Exhausted {
        /// The time until it may start again; `None` is never.
        retry_in: Option<Duration>,
        /// Failures in a row.
        failures: u32,
        /// The last failure.
        last: Option<String>,
    },
    /// An earlier process of the same server is not proven gone.
    #[error("an earlier process of it is not proven gone{}", also(.0))]
    Unproven(
        /// The error, which names what may be left.
        Option<String>,
    ),
    /// A limit was reached, and nothing that holds it is idle.
    #[error("the limit of {limit} live servers {} is reached; held by: {}", of(*.of_server), holders.join(", "))]
    Capacity {
        /// The limit.
        limit: usize,
        /// `true` if it is the limit of this server, rather than of the pool.
        of_server: bool,
        /// The holders: server, owner, leases.
        holders: Vec<String>,
    },
    /// The caller's time is up.
    #[error("not available within {timeout:?}{}", held(.holder))]
    TimedOut {
        /// The time.
        timeout: Duration,
        /// The server, its owner and its leases, where it was in use all the time.
        holder: Option<String>,
    },
}

impl AcquireError {
    pub(super) fn new(server: &str, owner: &Arc<str>, kind: AcquireErrorKind) -> Self {
        let context = AcquireErrorContext {
            server: server.into(),
            owner: Arc::clone(owner),
        };
        Self { context, kind }
    }

    /// The reason there is no lease.
    pub fn kind(&self) -> &AcquireErrorKind {
        &self.kind
    }

    /// The server, and the owner that wanted it.
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

fn held(holder: &Option<String>) -> String {
    let held = |holder| format!("; held by {holder}");
    holder.as_ref().map(held).unwrap_or_default()
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
