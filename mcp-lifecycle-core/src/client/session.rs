//! What calls need of a connection, apart from owning the server.

use std::sync::{Arc, OnceLock};

use rmcp::service::{DynService, RoleClient, RunningService};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::ClientState;
use super::handler::SharedHandler;
use super::stderr::StderrTail;
use crate::error::CallError;
use crate::transport::Wire;
use crate::{EndReason, ExitStatus};

/// One connection to one server, shared by the owner and all peers. Holding it
/// keeps no server alive.
pub(super) struct Session {
    pub(super) server: Arc<str>,
    pub(super) wire: Arc<Wire>,
    pub(super) stderr: Arc<StderrTail>,
    pub(super) handler: Arc<dyn DynService<RoleClient>>,
    /// rmcp's side of the connection, once the handshake is complete.
    pub(super) rmcp: OnceLock<RunningService<RoleClient, SharedHandler>>,
    pub(super) state: watch::Sender<ClientState>,
    /// Counts the calls in flight, for draining.
    pub(super) calls: TaskTracker,
    /// Why calls fail from now on; set before `closed` is cancelled.
    pub(super) cause: OnceLock<EndCause>,
    pub(super) closed: CancellationToken,
}

/// Why calls fail.
#[derive(Debug, Clone)]
pub(super) enum EndCause {
    /// The owner ends the server.
    Ending(EndReason),
    /// The server died.
    Died(ExitStatus),
    /// The server closed its output.
    OutputClosed,
}

impl Session {
    /// The error of a call that the end of the connection made fail.
    pub(super) fn closed_error(&self) -> CallError {
        let server = self.server.to_string();
        match self.cause.get() {
            Some(EndCause::Died(exit)) => CallError::ServerDied {
                server,
                exit: *exit,
                stderr_tail: self.stderr.tail(),
            },
            Some(EndCause::OutputClosed) => CallError::OutputClosed { server },
            Some(EndCause::Ending(reason)) => CallError::Ending {
                server,
                reason: reason.clone(),
            },
            None => CallError::Ending {
                server,
                reason: EndReason::Shutdown,
            },
        }
    }

    /// Fails every call from now on, for this reason. The first reason stays.
    pub(super) fn close(&self, cause: EndCause) {
        let _ = self.cause.set(cause);
        self.closed.cancel();
    }
}
