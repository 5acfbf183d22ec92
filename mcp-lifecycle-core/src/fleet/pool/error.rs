//! Why there is no lease.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::client::config::ServerConfig;
use crate::client::error::start::StartError;
use crate::fleet::engine::lease::Refused;
use crate::fleet::engine::record::Failure;
use crate::terminate::report::EndReason;

/// A server could not be leased.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AcquireError {
    /// The server's name.
    pub server: String,
    /// Who wanted it: the pool and the scope.
    pub owner: Arc<str>,
    /// Why.
    pub kind: AcquireErrorKind,
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
    #[error("its start failed")]
    Start(#[source] Arc<StartError>),
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

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            server,
            owner,
            kind,
        } = self;
        write!(f, "no lease of server `{server}` for `{owner}`: {kind}")
    }
}

impl std::error::Error for AcquireError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // The kind is part of this level's message; the chain goes on below it.
        self.kind.source()
    }
}

fn also(last: &Option<String>) -> String {
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

pub(super) fn explain(
    refused: Refused,
    server: &ServerConfig,
    owner: &Arc<str>,
    patience: Duration,
) -> AcquireError {
    let text = |last: Option<Failure>| last.map(|failure| failure.to_string());
    let kind = match refused {
        Refused::Closed => AcquireErrorKind::Closed,
        Refused::Retired(reason) => AcquireErrorKind::Retired(reason),
        Refused::Failed(Some(Failure::Start(error))) => AcquireErrorKind::Start(error),
        Refused::Failed(last) => {
            AcquireErrorKind::Failed(text(last).unwrap_or_else(|| "its start failed".to_owned()))
        }
        Refused::Backoff {
            wait,
            failures,
            last,
        } => AcquireErrorKind::Backoff {
            retry_in: wait,
            failures,
            last: text(last),
        },
        Refused::Exhausted {
            wait,
            failures,
            last,
        } => AcquireErrorKind::Exhausted {
            retry_in: wait,
            failures,
            last: text(last),
        },
        Refused::Unproven(last) => AcquireErrorKind::Unproven(text(last)),
        Refused::Capacity {
            limit,
            of_server,
            holders,
        } => AcquireErrorKind::Capacity {
            limit,
            of_server,
            holders,
        },
        Refused::TimedOut => AcquireErrorKind::TimedOut(patience),
    };
    AcquireError {
        server: server.name().to_owned(),
        owner: Arc::clone(owner),
        kind,
    }
}
