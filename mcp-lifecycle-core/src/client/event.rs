//! What happens to a server, as typed events for an application.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::era::Era;
use super::error::start::StartError;
use crate::launch::context::LaunchProgress;
use crate::launch::exit::ExitStatus;
use crate::launch::identity::ServerIdentity;
use crate::terminate::callback::guarded;
use crate::terminate::error::TerminateError;
use crate::terminate::report::{EndReason, TerminationReport};

/// One transition in the life of a server.
///
/// After `Starting` comes exactly one of `StartFailed` and `Ready`; after
/// `Launched` comes exactly one of `Ended` and `EndUnproven`, unless the runtime
/// goes away first.
#[derive(Debug)]
#[non_exhaustive]
pub enum LifecycleEvent<'a> {
    /// The launcher was asked to start it.
    Starting,
    /// The launcher has come further.
    Progress {
        /// With what.
        progress: &'a LaunchProgress,
    },
    /// It runs; the handshake begins.
    Launched {
        /// Who it is.
        identity: &'a ServerIdentity,
        /// How long the launch took.
        took: Duration,
    },
    /// It is ready for calls.
    Ready {
        /// The era of the protocol it speaks.
        era: Era,
        /// From the beginning of the launch.
        took: Duration,
    },
    /// It could not be started; nothing of it is left, unless the error says so.
    StartFailed {
        /// Why.
        error: &'a StartError,
    },
    /// Its main process exited by itself.
    Exited {
        /// How.
        exit: ExitStatus,
    },
    /// Its end has begun.
    Ending {
        /// Why.
        reason: &'a EndReason,
    },
    /// It is proven gone.
    Ended {
        /// The proof.
        report: &'a Arc<TerminationReport>,
    },
    /// It is not proven gone.
    EndUnproven {
        /// What may be left.
        error: &'a TerminateError,
    },
}

/// Is told what happens to servers.
///
/// Called synchronously from the task that makes it happen, under no lock: be quick, do
/// not block. It may call anything of this crate; a panic in it is caught and logged.
pub trait LifecycleObserver: Send + Sync + 'static {
    /// Something happened to `server`.
    fn on_event(&self, server: &str, event: &LifecycleEvent<'_>);

    /// `server` wrote a line to standard error: already cut to the limit,
    /// invalid UTF-8 replaced.
    fn on_stderr(&self, server: &str, line: &str) {
        let _ = (server, line);
    }
}

/// Tells nobody.
impl LifecycleObserver for () {
    fn on_event(&self, _: &str, _: &LifecycleEvent<'_>) {}
}

/// The observer of one server.
#[derive(Clone)]
pub(crate) struct Observed {
    server: Arc<str>,
    observer: Arc<dyn LifecycleObserver>,
}

impl Observed {
    pub(crate) fn new(server: &str, observer: Arc<dyn LifecycleObserver>) -> Self {
        Self {
            server: server.into(),
            observer,
        }
    }

    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    pub(crate) fn event(&self, event: &LifecycleEvent<'_>) {
        guarded("an observer", &self.server, || {
            self.observer.on_event(&self.server, event);
        });
    }

    pub(crate) fn stderr(&self, line: &str) {
        guarded("an observer", &self.server, || {
            self.observer.on_stderr(&self.server, line);
        });
    }
}

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Observed").field(&self.server).finish()
    }
}
