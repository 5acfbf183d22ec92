//! [`LifecycleClient`], and the task that watches over a connection's server and ends it in order.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::session::Session;
use super::{ClientState, LifecyclePeer, ServerEventKind, SkippedLines};
use crate::launch::macros::debug_fields;
use crate::launch::{ExitStatus, ServerIdentity, TerminationSemantics};
use crate::terminate::handle::{Attempt, Request};
use crate::terminate::timing::{EXIT_AFTER_STREAM, REST_OF_OUTPUT};
use crate::terminate::{EndReason, ServerHandle, TerminationOutcome, TerminationPolicy};

/// An MCP client and the server it started.
///
/// Dereferences to its [`LifecyclePeer`] for calls.
///
/// # Drop
///
/// Dropping the client without [`shutdown`](Self::shutdown) kills the server
/// synchronously, in any context, and fails calls in flight. Prefer `shutdown`:
/// it ends the server in order and returns the proof.
pub struct LifecycleClient {
    pub(super) peer: LifecyclePeer,
    pub(crate) handle: ServerHandle,
}

impl LifecycleClient {
    /// Returns the calls of this client, for tasks that use the server without owning it.
    pub fn peer(&self) -> &LifecyclePeer {
        &self.peer
    }

    /// Returns the server's identity.
    pub fn identity(&self) -> ServerIdentity {
        self.handle.identity()
    }

    /// Returns the steps of an end that the server supports, and their reach.
    pub fn semantics(&self) -> TerminationSemantics {
        self.handle.semantics()
    }

    /// Returns the current state and its changes.
    pub fn state(&self) -> watch::Receiver<ClientState> {
        self.peer.session().state.subscribe()
    }

    /// Returns the lines on standard output that were not the protocol, if any.
    pub fn skipped_lines(&self) -> Option<SkippedLines> {
        self.peer.session().wire.skipped.lock().clone()
    }

    /// Returns the last lines of stderr.
    pub fn stderr_tail(&self) -> Vec<String> {
        self.peer.session().stderr.tail()
    }

    /// Ends the server in the order of the specification and returns the proof.
    ///
    /// New calls are refused, calls in flight are cancelled and fail, stdin is closed, then the
    /// server gets SIGTERM and finally SIGKILL; its output is read throughout. Every wait is
    /// bounded by the client's [`TerminationPolicy`]. Concurrent and repeated calls share one run
    /// and get the same report.
    ///
    /// # Errors
    ///
    /// [`TerminateError`](crate::terminate::TerminateError) names what is still alive. Calling
    /// again retries.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not stop the end; a later call joins it.
    pub async fn shutdown(&self) -> TerminationOutcome {
        let policy = self.peer.session().policy();
        self.handle.terminate(&policy, EndReason::Shutdown).await
    }

    /// Does the same as [`shutdown`](Self::shutdown), with a reason and a policy.
    pub async fn shutdown_with(
        &self,
        reason: EndReason,
        policy: TerminationPolicy,
    ) -> TerminationOutcome {
        self.handle.terminate(&policy, reason).await
    }

    /// Begins [`shutdown_with`](Self::shutdown_with) in the background.
    pub fn begin_shutdown(&self, reason: EndReason, policy: TerminationPolicy) {
        self.handle.begin_termination(&policy, reason);
    }

    /// Waits until the server has ended for any reason, without ending it. Cancel safe.
    ///
    /// # Errors
    ///
    /// [`TerminateError`](crate::terminate::TerminateError) if the last end was not proven, which
    /// is not retried here.
    pub async fn ended(&self) -> TerminationOutcome {
        match self.handle.outcome().await {
            Some(outcome) => outcome,
            // Killed with its runtime. This one can have the proof.
            None => {
                let policy = TerminationPolicy::immediate();
                self.handle
                    .terminate(&policy, EndReason::OwnerDropped)
                    .await
            }
        }
    }

    /// Kills the server synchronously, as the last resort. Its end completes with the proof.
    pub fn kill_now(&self) {
        self.handle.kill_now();
    }
}

impl Deref for LifecycleClient {
    type Target = LifecyclePeer;

    fn deref(&self) -> &LifecyclePeer {
        &self.peer
    }
}

debug_fields!(
    LifecycleClient,
    it {
        server: &it.peer.server(),
        identity: &it.identity(),
        state: &*it.peer.session().state.borrow()
    }
);

pub(super) struct Pumps {
    pub(super) writer: JoinHandle<()>,
    pub(super) stderr: Option<JoinHandle<()>>,
}

/// Watches over one server. Kills it if dropped early, as when its runtime ends.
pub(super) struct Watcher {
    pub(super) session: Arc<Session>,
    pub(super) attempt: Attempt,
}

struct Death {
    reason: EndReason,
    exit: Option<ExitStatus>,
}

impl Watcher {
    pub(super) async fn run(self, request: oneshot::Receiver<Request>, pumps: Pumps) {
        let session = &self.session;
        let outcome = {
            let mut by_itself = std::pin::pin!(self.by_itself());
            let (mut reason, policy, mut death) = tokio::select! {
                biased;
                Ok((reason, policy)) = request => (reason, policy, None),
                death = &mut by_itself => (self.dies(&death), session.policy(), Some(death)),
            };
            let begun = Instant::now();
            session.observed.event(ServerEventKind::Ending {
                reason: reason.clone(),
            });
            if death.is_none() {
                // Calls in flight may complete; a death of the server cuts that short.
                session.calls.close();
                let drained = async {
                    if !session.state.borrow().is_closed() {
                        let _ = timeout(policy.drain, session.calls.wait()).await;
                    }
                };
                tokio::select! {
                    biased;
                    () = drained => {}
                    died = &mut by_itself => {
                        reason = self.dies(&died);
                        death = Some(died);
                    }
                }
            }
            self.end(reason, death, &policy, begun, pumps).await
        };
        self.attempt.finish(&outcome);
    }

    async fn by_itself(&self) -> Death {
        let wire = &self.session.wire;
        let died = |exit| Death {
            reason: EndReason::ServerExited,
            exit: Some(exit),
        };
        let mut exited = std::pin::pin!(self.attempt.exited());
        tokio::select! {
            biased;
            exit = &mut exited => return died(exit),
            () = wire.output_ended.cancelled() => {}
            () = wire.leaving.cancelled() => {}
        }
        let reason = match wire.leaving.is_cancelled() {
            true => EndReason::InputClosed,
            false => EndReason::OutputClosed,
        };
        match timeout(EXIT_AFTER_STREAM, exited).await {
            Ok(exit) => died(exit),
            Err(_) => Death { reason, exit: None },
        }
    }

    fn dies(&self, death: &Death) -> EndReason {
        self.session.state.send_replace(ClientState::Ending {
            reason: death.reason.clone(),
            exit: death.exit,
            draining: true,
        });
        if let Some(exit) = death.exit {
            self.session
                .observed
                .event(ServerEventKind::Exited { exit });
            self.session.wire.exited.cancel();
        }
        death.reason.clone()
    }

    async fn end(
        &self,
        reason: EndReason,
        death: Option<Death>,
        policy: &TerminationPolicy,
        begun: Instant,
        mut pumps: Pumps,
    ) -> TerminationOutcome {
        let session = &self.session;
        let wire = &session.wire;
        // Never beyond the policy's longest time.
        let left = |limit: Duration| limit.saturating_sub(begun.elapsed());
        let rest_of_output = || REST_OF_OUTPUT.min(left(policy.beside_rungs()));
        let has_exited = death.as_ref().is_some_and(|death| death.exit.is_some());
        if has_exited {
            // Output up to the exit still counts.
            let _ = timeout(rest_of_output(), wire.output_ended.cancelled()).await;
        }
        wire.cancel_all_and_close(&reason.to_string());
        if has_exited {
            // Drain stderr first, so that errors of calls can quote it.
            wait_for(&mut pumps.stderr, rest_of_output()).await;
        }
        session.state.send_if_modified(|state| match state {
            ClientState::Ending { draining, .. } => std::mem::take(draining),
            _ => false,
        });
        if death.is_none() && !wire.outbox.is_empty() {
            let _ = timeout(policy.flush, &mut pumps.writer).await;
        }
        let explain = death.is_some() || reason == EndReason::StartFailed;
        let rungs = TerminationPolicy {
            report_limit: policy.report_limit.min(left(policy.beside_rungs())),
            ..policy.clone()
        };
        let outcome = {
            let mut end = std::pin::pin!(self.attempt.climb(&rungs, reason, begun));
            tokio::select! {
                outcome = &mut end => outcome,
                () = wire.drain_output() => end.await,
            }
        };
        // Only now: earlier wake-ups would take time from the ending server.
        session.service.cancel();
        pumps.writer.abort();
        if explain {
            let rest = REST_OF_OUTPUT.min(left(policy.longest()));
            wait_for(&mut pumps.stderr, rest).await;
        }
        outcome
    }
}

async fn wait_for(pump: &mut Option<JoinHandle<()>>, limit: Duration) {
    if let Some(running) = pump
        && timeout(limit, running).await.is_ok()
    {
        *pump = None;
    }
}
