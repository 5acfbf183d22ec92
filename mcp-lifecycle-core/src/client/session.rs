//! The part of a connection that calls need, apart from owning the server.

use std::sync::{Arc, OnceLock};

use rmcp::service::{RoleClient, RunningService};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::error::call::CallErrorKind;
use super::handler::SharedHandler;
use super::state::ClientState;
use super::stderr::StderrTail;
use super::transport::connection::Connection;
use crate::launch::exit::ExitStatus;
use crate::terminate::report::EndReason;
use crate::terminate::timing::CAUSE_KNOWN;

/// One connection to one server, shared by the owner and all peers. Holding it
/// keeps no server alive.
pub(super) struct Session {
    pub(super) server: Arc<str>,
    pub(super) wire: Arc<Connection>,
    pub(super) stderr: Arc<StderrTail>,
    pub(super) handler: SharedHandler,
    /// rmcp's side of the connection, once the handshake is complete.
    pub(super) rmcp: OnceLock<RunningService<RoleClient, SharedHandler>>,
    /// Where the server is in its life; whether calls are taken, and why not, follows.
    pub(super) state: watch::Sender<ClientState>,
    /// Counts the calls in flight, for draining.
    pub(super) calls: TaskTracker,
}

impl Session {
    /// The reason calls are refused or fail, if they do.
    pub(super) fn end_error(&self) -> Option<CallErrorKind> {
        let state = self.state.borrow();
        let (reason, exit) = state.end_reason()?;
        Some(match reason {
            EndReason::ServerExited => CallErrorKind::ServerDied {
                exit: exit.unwrap_or(ExitStatus::Unknown),
                stderr_tail: self.stderr.tail(),
            },
            EndReason::OutputClosed => CallErrorKind::OutputClosed,
            reason => CallErrorKind::Ending(reason.clone()),
        })
    }

    /// The error of a call before there is anything to make it with.
    pub(super) fn not_connected(&self) -> CallErrorKind {
        self.end_error()
            .unwrap_or(CallErrorKind::Ending(EndReason::StartFailed))
    }

    /// Completes when calls in flight are to fail, with the reason.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub(super) async fn closed(&self) -> Option<CallErrorKind> {
        let mut state = self.state.subscribe();
        // The session holds the sender; the guard must not live on.
        let _ = state.wait_for(ClientState::is_closed).await.is_ok();
        self.end_error()
    }

    /// The reason a connection broke that nobody here has closed.
    pub(super) async fn broken(&self) -> Option<CallErrorKind> {
        timeout(CAUSE_KNOWN, self.closed()).await.ok().flatten()
    }
}
