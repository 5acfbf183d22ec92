use std::sync::{Arc, OnceLock};

use rmcp::service::{DynService, RoleClient, RunningService};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::event::Observed;
use super::handler::SharedHandler;
use super::lifecycle_client::{Pumps, Watcher};
use super::stderr::{self, StderrTail};
use super::transport::connection::Connection;
use super::{CallErrorKind, ClientState, EndResult, ServerEventKind, TransportLimits};
use crate::launch::{ExitStatus, LaunchedServer};
use crate::lock::Lock;
use crate::terminate::handle::Follower;
use crate::terminate::timing::CAUSE_KNOWN;
use crate::terminate::{EndReason, ServerHandle, TerminationOutcome, TerminationPolicy};

/// One connection to one server, shared by the owner and all peers. Keeps no server alive.
pub(super) struct Session {
    pub(super) observed: Observed,
    pub(super) wire: Arc<Connection>,
    pub(super) stderr: Arc<StderrTail>,
    pub(super) handler: SharedHandler,
    pub(super) rmcp: OnceLock<RunningService<RoleClient, SharedHandler>>,
    pub(super) service: CancellationToken,
    /// The server's state, from which follows whether and why calls are refused.
    pub(super) state: watch::Sender<ClientState>,
    pub(super) calls: TaskTracker,
    policy: Lock<TerminationPolicy>,
}

impl Session {
    /// Takes over a server: moves its bytes, and watches over it. The handle owns it.
    pub(super) fn open(
        launched: LaunchedServer,
        observed: Observed,
        handler: Arc<dyn DynService<RoleClient>>,
        limits: &TransportLimits,
        policy: TerminationPolicy,
    ) -> (Arc<Self>, ServerHandle) {
        let parts = launched.into_parts();
        let (handle, stdin) = ServerHandle::new(&*observed.server, parts.stdin, parts.terminator);
        let wire = Connection::new(stdin, parts.stdout, limits);
        let stderr = Arc::<StderrTail>::default();
        let pumps = Pumps {
            writer: tokio::spawn(Arc::clone(&wire.outbox).write_all()),
            stderr: parts.stderr.map(|io| {
                let (tail, observed) = (Arc::clone(&stderr), observed.clone());
                tokio::spawn(stderr::drain(io, tail, observed))
            }),
        };
        let session = Arc::new(Self {
            wire,
            stderr,
            handler: SharedHandler::new(&observed.server, handler),
            rmcp: OnceLock::new(),
            service: CancellationToken::new(),
            state: watch::Sender::new(ClientState::Starting),
            calls: TaskTracker::new(),
            policy: Lock::new(policy),
            observed,
        });
        let (attempt, request) = handle.watch(Arc::clone(&session) as _);
        let watcher = Watcher {
            session: Arc::clone(&session),
            attempt,
        };
        tokio::spawn(watcher.run(request, pumps));
        (session, handle)
    }

    pub(super) fn policy(&self) -> TerminationPolicy {
        let policy = self.policy.lock();
        policy.clone()
    }

    pub(super) fn set_policy(&self, policy: TerminationPolicy) {
        *self.policy.lock() = policy;
    }

    pub(super) fn end_error(&self) -> Option<CallErrorKind> {
        let state = self.state.borrow();
        let (reason, exit) = state.end_reason()?;
        Some(match reason {
            EndReason::ServerExited => CallErrorKind::ServerDied {
                exit: exit.unwrap_or(ExitStatus::Unknown),
                stderr_tail: self.stderr.tail(),
            },
            EndReason::OutputClosed => CallErrorKind::OutputClosed,
            EndReason::InputClosed => CallErrorKind::InputClosed,
            reason => CallErrorKind::Ending(reason.clone()),
        })
    }

    pub(super) fn not_connected(&self) -> CallErrorKind {
        self.end_error()
            .unwrap_or(CallErrorKind::Ending(EndReason::StartFailed))
    }

    pub(super) async fn closed(&self) -> Option<CallErrorKind> {
        let mut state = self.state.subscribe();
        // The guard must not be kept.
        let _ = state.wait_for(ClientState::is_closed).await.is_ok();
        self.end_error()
    }

    pub(super) async fn broken(&self) -> Option<CallErrorKind> {
        timeout(CAUSE_KNOWN, self.closed()).await.ok().flatten()
    }
}

impl Follower for Session {
    fn begins(&self, reason: &EndReason) {
        self.state.send_if_modified(|state| {
            let first = !state.is_ending();
            if first {
                *state = ClientState::Ending {
                    reason: reason.clone(),
                    exit: None,
                    // A dropped owner kills: nothing can be answered any more.
                    draining: *reason != EndReason::OwnerDropped,
                };
            }
            first
        });
    }

    fn ended(&self, outcome: &TerminationOutcome) {
        self.observed.event(match outcome {
            Ok(report) => ServerEventKind::Ended {
                reason: report.reason.clone(),
                result: EndResult::Proven(Arc::clone(report)),
            },
            Err(error) => ServerEventKind::Unproven {
                error: error.clone(),
            },
        });
        let outcome = outcome.clone();
        self.state.send_replace(ClientState::Ended { outcome });
    }
}
