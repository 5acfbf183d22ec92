//! The record of a server, apart from its processes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::client::config::ServerConfig;
use crate::client::error::start::StartError;
use crate::launch::exit::ExitStatus;
use crate::terminate::error::TerminateError;
use crate::terminate::handle::TerminationOutcome;
use crate::terminate::report::EndReason;

/// One server of one owner: what it is, and what went wrong last. Outlives the
/// slot for callers that wait for the outcome.
pub(crate) struct Record {
    pub(crate) server: Arc<str>,
    pub(crate) owner: Arc<str>,
    inner: Mutex<Inner>,
}

struct Inner {
    config: Arc<ServerConfig>,
    failure: Option<Failure>,
    outcome: Option<TerminationOutcome>,
}

/// The last failure.
#[derive(Debug, Clone)]
pub(crate) enum Failure {
    Start(StartError),
    Died {
        exit: Option<ExitStatus>,
        reason: EndReason,
    },
    Unproven(Arc<TerminateError>),
}

impl Record {
    pub(crate) fn new(owner: Arc<str>, config: Arc<ServerConfig>) -> Arc<Self> {
        Arc::new(Self {
            server: config.name().into(),
            owner,
            inner: Mutex::new(Inner {
                config,
                failure: None,
                outcome: None,
            }),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.lock().config)
    }

    pub(super) fn set_config(&self, config: Arc<ServerConfig>) {
        self.lock().config = config;
    }

    pub(crate) fn failure(&self) -> Option<Failure> {
        self.lock().failure.clone()
    }

    pub(super) fn failed(&self, failure: Failure) {
        self.lock().failure = Some(failure);
    }

    /// How the last process ended.
    pub(crate) fn outcome(&self) -> Option<TerminationOutcome> {
        self.lock().outcome.clone()
    }

    /// A new process begins; nothing is known of its end.
    pub(super) fn begins(&self) {
        self.lock().outcome = None;
    }

    pub(super) fn ended(&self, outcome: TerminationOutcome) {
        self.lock().outcome = Some(outcome);
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Start(error) => error.fmt(f),
            Self::Died {
                exit: Some(exit), ..
            } => write!(f, "it died: {exit}"),
            Self::Died { exit: None, reason } => write!(f, "it ended by itself: {reason}"),
            Self::Unproven(error) => error.fmt(f),
        }
    }
}
