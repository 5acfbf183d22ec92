use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::client::StartError;
use crate::terminate::EndReason;

/// The failure to get a server of a manager or a pool for calls.
#[derive(Debug, Clone, Error)]
#[error("server `{}` is not available to `{}`: {kind}", .context.server, .context.owner)]
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
    /// The requesting owner: the manager, or the pool and the scope.
    pub owner: Arc<str>,
}

/// The reason a server is not available.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "names and messages say it")]
pub enum AcquireErrorKind {
    #[error("its owner is shut down")]
    Closed,
    #[error("it is not declared")]
    NotDeclared,
    /// The owner of the server ended while the caller waited, or before.
    #[error("it was ended ({0})")]
    Retired(EndReason),
    #[error("{0}")]
    Start(StartError),
    /// The server died, or could not be started, while the caller waited.
    #[error("{0}")]
    Failed(String),
    #[error("it failed {} and may start again in {retry_in:.1?}{}", times(*.failures), also(.last))]
    Backoff {
        retry_in: Duration,
        failures: u32,
        last: Option<String>,
    },
    #[error("it failed {}, which is its limit{}{}", times(*.failures), renewed(.retry_in), also(.last))]
    Exhausted {
        /// The time until it may start again; `None` is never.
        retry_in: Option<Duration>,
        failures: u32,
        last: Option<String>,
    },
    #[error("an earlier process of it is not proven gone{}", also(.0))]
    Unproven(Option<String>),
    #[error("the limit of {limit} live servers of {} is reached; held by: {}",
        if *of_server { "this server" } else { "the pool" }, holders.join(", "))]
    Capacity {
        limit: usize,
        /// `true` if it is the limit of this server, rather than of the pool.
        of_server: bool,
        holders: Vec<String>,
    },
    #[error("not ready within {timeout:?}{}{}", held(.holder), also(.last))]
    TimedOut {
        timeout: Duration,
        /// The server, its owner and its leases, if it was in use all the time.
        holder: Option<String>,
        last: Option<String>,
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

    /// Returns the reason.
    pub fn kind(&self) -> &AcquireErrorKind {
        &self.kind
    }

    /// Returns the server and the requesting owner.
    pub fn context(&self) -> &AcquireErrorContext {
        &self.context
    }
}

fn also(last: &Option<String>) -> String {
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
