use std::sync::Arc;

use crate::client::{ServerConfig, StartError};
use crate::launch::ExitStatus;
use crate::lock::Lock;
use crate::terminate::{EndReason, TerminateError, TerminationOutcome};

/// One server of one owner and its last failure. Outlives the slot for callers that wait for the
/// outcome.
pub(crate) struct Record {
    pub(crate) server: Arc<str>,
    pub(crate) owner: Arc<str>,
    pub(super) inner: Lock<Inner>,
}

pub(super) struct Inner {
    pub(super) config: Arc<ServerConfig>,
    failure: Option<Failure>,
    pub(super) outcome: Option<TerminationOutcome>,
}

#[derive(Debug, Clone, displaydoc::Display)]
pub(crate) enum Failure {
    #[displaydoc("{0}")]
    Start(StartError),
    #[displaydoc("it died: {0}")]
    Died(ExitStatus),
    #[displaydoc("{0}")]
    Closed(EndReason),
    #[displaydoc("{0}")]
    Unproven(Arc<TerminateError>),
}

impl Record {
    pub(crate) fn new(owner: Arc<str>, config: Arc<ServerConfig>) -> Arc<Self> {
        Arc::new(Self {
            server: config.name().into(),
            owner,
            inner: Lock::new(Inner {
                config,
                failure: None,
                outcome: None,
            }),
        })
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.inner.lock().config)
    }

    pub(crate) fn failure(&self) -> Option<Failure> {
        self.inner.lock().failure.clone()
    }

    pub(super) fn failed(&self, failure: Failure) {
        self.inner.lock().failure = Some(failure);
    }

    pub(crate) fn outcome(&self) -> Option<TerminationOutcome> {
        self.inner.lock().outcome.clone()
    }
}
