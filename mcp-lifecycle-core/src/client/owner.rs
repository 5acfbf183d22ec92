//! The one owner of a client's server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::event::{EndResult, Observed, ServerEventKind};
use super::session::Session;
use super::state::ClientState;
use crate::terminate::handle::{ServerHandle, TerminationOutcome};
use crate::terminate::policy::TerminationPolicy;
use crate::terminate::report::EndReason;

/// Owns the server; shared by the client and the task that watches over it.
/// Peers do not hold it.
pub(super) struct Owner {
    pub(super) handle: ServerHandle,
    pub(super) session: Arc<Session>,
    pub(super) policy: TerminationPolicy,
    /// The policy of the first caller that asked for the end.
    pub(super) asked: OnceLock<TerminationPolicy>,
    pub(super) observed: Observed,
    /// `true` if the proof was told.
    pub(super) proven: AtomicBool,
    /// Cancelled when the watcher has gone unfinished.
    pub(super) unwatched: CancellationToken,
    /// Ends rmcp's loop.
    pub(super) service: CancellationToken,
}

impl Owner {
    pub(super) fn new(
        handle: ServerHandle,
        session: Arc<Session>,
        policy: TerminationPolicy,
        observed: Observed,
    ) -> Arc<Self> {
        Arc::new(Self {
            handle,
            session,
            policy,
            asked: OnceLock::new(),
            observed,
            proven: AtomicBool::new(false),
            unwatched: CancellationToken::new(),
            service: CancellationToken::new(),
        })
    }

    pub(super) fn handle(&self) -> &ServerHandle {
        &self.handle
    }

    pub(super) fn state(&self) -> watch::Receiver<ClientState> {
        self.session.state.subscribe()
    }

    /// Ends the server and returns the outcome, joining an end under way. One ladder
    /// is climbed for one call: another one only if the last has failed before.
    pub(super) async fn end(
        &self,
        reason: EndReason,
        policy: Option<TerminationPolicy>,
    ) -> TerminationOutcome {
        let used = policy.clone().unwrap_or_else(|| self.policy.clone());
        let failed = self.outcome().is_some_and(|outcome| outcome.is_err());
        self.begin_end(reason.clone(), policy);
        match self.watched().await {
            Some(outcome) if outcome.is_ok() || !failed => outcome,
            Some(_) | None => self.end_again(&used, reason).await,
        }
    }

    /// Asks for the end without waiting for it. The first request stands.
    pub(super) fn begin_end(&self, reason: EndReason, policy: Option<TerminationPolicy>) {
        self.ask(reason, policy, true);
    }

    /// Waits for the outcome without asking for the end.
    pub(super) async fn ended(&self) -> TerminationOutcome {
        match self.watched().await {
            Some(outcome) => outcome,
            None => {
                let policy = TerminationPolicy::immediate();
                self.end_again(&policy, EndReason::OwnerDropped).await
            }
        }
    }

    /// The client was dropped. Synchronous. An end under way goes on.
    pub(super) fn abandon(&self) {
        if self.session.state.borrow().is_ending() {
            return;
        }
        self.handle.kill_now();
        let policy = TerminationPolicy::immediate();
        self.ask(EndReason::OwnerDropped, Some(policy), false);
    }

    fn ask(&self, reason: EndReason, policy: Option<TerminationPolicy>, draining: bool) {
        self.session.state.send_if_modified(|state| {
            let first = !state.is_ending();
            if first {
                if let Some(policy) = policy {
                    let _ = self.asked.set(policy);
                }
                *state = ClientState::Ending {
                    reason,
                    exit: None,
                    draining,
                };
            }
            first
        });
    }

    fn outcome(&self) -> Option<TerminationOutcome> {
        match &*self.session.state.borrow() {
            ClientState::Ended { outcome } => Some(outcome.clone()),
            _ => None,
        }
    }

    /// The outcome, once there is one; `None` when nobody watches any more.
    async fn watched(&self) -> Option<TerminationOutcome> {
        let mut state = self.state();
        let ended = async {
            // The session holds the sender; the guard must not live on.
            let _ = state.wait_for(ClientState::is_ended).await.is_ok();
            self.outcome()
        };
        tokio::select! {
            biased;
            () = self.unwatched.cancelled() => None,
            outcome = ended => outcome,
        }
    }

    /// The handle shares, repeats and proves by itself.
    async fn end_again(&self, policy: &TerminationPolicy, reason: EndReason) -> TerminationOutcome {
        let outcome = self.handle.terminate(policy, reason).await;
        self.publish(&outcome);
        outcome
    }

    /// Several who joined one termination publish it; what is proven is told once.
    pub(super) fn publish(&self, outcome: &TerminationOutcome) {
        match outcome {
            Ok(_) if self.proven.swap(true, Ordering::Relaxed) => {}
            Ok(report) => self.observed.event(ServerEventKind::Ended {
                reason: report.reason.clone(),
                result: EndResult::Proven(Arc::clone(report)),
            }),
            Err(error) => self.observed.event(ServerEventKind::Unproven {
                error: error.clone(),
            }),
        }
        self.session.state.send_if_modified(|state| {
            let known = matches!(state, ClientState::Ended { outcome: Ok(_) });
            if !known {
                *state = ClientState::Ended {
                    outcome: outcome.clone(),
                };
            }
            !known
        });
    }
}
