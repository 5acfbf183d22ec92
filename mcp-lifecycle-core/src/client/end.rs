//! The one owner of a client's server, and the task that watches over it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::ClientState;
use super::session::{EndCause, Session};
use crate::events::{LifecycleEvent, Observed};
use crate::{EndReason, ExitStatus, ServerHandle, TerminationOutcome, TerminationPolicy};

/// Owns the server; shared by the client and the task that watches over it.
/// Peers do not hold it.
pub(super) struct Owner {
    handle: ServerHandle,
    session: Arc<Session>,
    policy: TerminationPolicy,
    observed: Observed,
    request: watch::Sender<Option<EndRequest>>,
    outcome: watch::Receiver<Option<TerminationOutcome>>,
    /// Ends rmcp's loop.
    pub(super) service: CancellationToken,
}

#[derive(Clone)]
struct EndRequest {
    reason: EndReason,
    policy: Option<TerminationPolicy>,
}

/// The tasks that carry a connection's bytes.
pub(super) struct Pumps {
    pub(super) writer: JoinHandle<()>,
    pub(super) stderr: Option<JoinHandle<()>>,
}

/// How long the exit of a server may lag behind the end of its output before
/// the two are taken for different things.
const EXIT_AFTER_OUTPUT: Duration = Duration::from_millis(100);

/// How long the rest of the output, or of standard error, may take after the
/// server is gone.
const REST_OF_OUTPUT: Duration = Duration::from_millis(250);

impl Owner {
    /// Takes the server over and starts to watch it, in a task of its own.
    pub(super) fn watch_over(
        handle: ServerHandle,
        session: Arc<Session>,
        policy: TerminationPolicy,
        observed: Observed,
        pumps: Pumps,
    ) -> Arc<Self> {
        let (outcome_tx, outcome) = watch::channel(None);
        let owner = Arc::new(Self {
            handle,
            session,
            policy,
            observed,
            request: watch::Sender::new(None),
            outcome,
            service: CancellationToken::new(),
        });
        let watcher = Watcher {
            owner: Arc::clone(&owner),
            done: false,
        };
        tokio::spawn(watcher.run(pumps, outcome_tx));
        owner
    }

    pub(super) fn handle(&self) -> &ServerHandle {
        &self.handle
    }

    pub(super) fn state(&self) -> watch::Receiver<ClientState> {
        self.session.state.subscribe()
    }

    /// Ends the server and returns the outcome, joining an end under way.
    pub(super) async fn end(
        &self,
        reason: EndReason,
        policy: Option<TerminationPolicy>,
    ) -> TerminationOutcome {
        let used = policy.clone().unwrap_or_else(|| self.policy.clone());
        self.ask(reason.clone(), policy);
        match self.watched_outcome().await {
            Some(Ok(report)) => Ok(report),
            // It failed once, or its watcher went away with its runtime: the
            // handle shares, repeats and proves by itself.
            Some(Err(_)) | None => {
                let outcome = self.handle.terminate(&used, reason).await;
                self.publish(&outcome);
                outcome
            }
        }
    }

    /// Asks for the end without waiting for it. The first request stands.
    pub(super) fn begin_end(&self, reason: EndReason, policy: Option<TerminationPolicy>) {
        self.ask(reason, policy);
    }

    /// Waits for the outcome without asking for the end.
    pub(super) async fn ended(&self) -> TerminationOutcome {
        match self.watched_outcome().await {
            Some(outcome) => outcome,
            None => {
                let policy = TerminationPolicy::immediate();
                self.handle
                    .terminate(&policy, EndReason::OwnerDropped)
                    .await
            }
        }
    }

    /// The client was dropped. Synchronous.
    pub(super) fn abandon(&self) {
        if self.outcome.borrow().is_some() || self.request.borrow().is_some() {
            return;
        }
        self.handle.kill_now();
        self.session
            .close(EndCause::Ending(EndReason::OwnerDropped));
        self.ask(
            EndReason::OwnerDropped,
            Some(TerminationPolicy::immediate()),
        );
    }

    fn ask(&self, reason: EndReason, policy: Option<TerminationPolicy>) {
        self.request.send_if_modified(|request| {
            let first = request.is_none();
            if first {
                *request = Some(EndRequest { reason, policy });
            }
            first
        });
    }

    async fn watched_outcome(&self) -> Option<TerminationOutcome> {
        let mut outcome = self.outcome.clone();
        let outcome = outcome.wait_for(Option::is_some).await.ok()?;
        outcome.clone()
    }

    fn publish(&self, outcome: &TerminationOutcome) {
        match outcome {
            Ok(report) => self.observed.event(&LifecycleEvent::Ended { report }),
            Err(error) => self.observed.event(&LifecycleEvent::EndUnproven { error }),
        }
        self.session.state.send_replace(ClientState::Ended {
            outcome: outcome.clone(),
        });
    }
}

/// The task that watches over one server. Dropped unfinished, which happens
/// when its runtime goes away, it kills the server synchronously.
struct Watcher {
    owner: Arc<Owner>,
    done: bool,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if !self.done {
            self.owner.handle.kill_now();
        }
    }
}

impl Watcher {
    async fn run(mut self, pumps: Pumps, outcome: watch::Sender<Option<TerminationOutcome>>) {
        let (request, cause) = self.what_ends_it().await;
        let ended = self.end(request, cause, pumps).await;
        self.done = true;
        outcome.send_replace(Some(ended));
    }

    /// Waits until the server is to be ended, or has ended by itself.
    async fn what_ends_it(&self) -> (EndRequest, EndCause) {
        let Owner {
            handle,
            session,
            request,
            ..
        } = &*self.owner;
        let mut request = request.subscribe();
        let mut exited = std::pin::pin!(handle.watch_exit());
        tokio::select! {
            biased;
            asked = asked(&mut request) => {
                let cause = EndCause::Ending(asked.reason.clone());
                return (asked, cause);
            }
            exit = &mut exited => return self.died(exit).await,
            () = session.wire.output_ended.cancelled() => {}
        }
        match timeout(EXIT_AFTER_OUTPUT, exited).await {
            Ok(exit) => self.died(exit).await,
            Err(_) => (
                EndRequest::by_itself(EndReason::OutputClosed),
                EndCause::OutputClosed,
            ),
        }
    }

    /// The main process has exited: what it said last still counts.
    async fn died(&self, exit: ExitStatus) -> (EndRequest, EndCause) {
        let Owner {
            session, observed, ..
        } = &*self.owner;
        observed.event(&LifecycleEvent::Exited { exit });
        session.wire.exited.cancel();
        let _ = timeout(REST_OF_OUTPUT, session.wire.output_ended.cancelled()).await;
        (
            EndRequest::by_itself(EndReason::ServerExited),
            EndCause::Died(exit),
        )
    }

    async fn end(
        &self,
        request: EndRequest,
        cause: EndCause,
        mut pumps: Pumps,
    ) -> TerminationOutcome {
        let Owner {
            handle,
            session,
            observed,
            service,
            ..
        } = &*self.owner;
        let EndRequest { reason, policy } = request;
        let policy = policy.unwrap_or_else(|| self.owner.policy.clone());
        observed.event(&LifecycleEvent::Ending { reason: &reason });
        session.state.send_replace(ClientState::Ending {
            reason: reason.clone(),
        });
        // No new calls; those in flight may complete, then are cancelled.
        session.calls.close();
        let alive = matches!(cause, EndCause::Ending(_));
        if alive && !policy.drain.is_zero() {
            let _ = timeout(policy.drain, session.calls.wait()).await;
        }
        session.wire.cancel_all_and_close(reason.as_str());
        // Whoever is told of a failure wants the server's last words with it.
        let explain = !alive || reason == EndReason::StartFailed;
        if let EndCause::Died(_) = cause {
            // Its last words belong into the errors of its calls.
            wait_for(&mut pumps.stderr).await;
        }
        session.close(cause);
        if alive && !session.wire.outbox.is_empty() {
            let _ = timeout(policy.flush, &mut pumps.writer).await;
        }
        let outcome = {
            let mut drain = std::pin::pin!(session.wire.drain_output());
            let mut end = std::pin::pin!(handle.terminate_here(&policy, reason));
            tokio::select! {
                outcome = &mut end => outcome,
                () = &mut drain => end.await,
            }
        };
        // Not before: nobody waits for these two, and each wake-up takes time
        // from the server that is to leave.
        service.cancel();
        pumps.writer.abort();
        if explain {
            wait_for(&mut pumps.stderr).await;
        }
        self.owner.publish(&outcome);
        outcome
    }
}

/// Waits for a request to end the server.
async fn asked(request: &mut watch::Receiver<Option<EndRequest>>) -> EndRequest {
    let asked = match request.wait_for(Option::is_some).await {
        Ok(asked) => asked.clone(),
        // The owner holds the sender and the watcher holds the owner.
        Err(_) => None,
    };
    asked.unwrap_or_else(|| EndRequest::by_itself(EndReason::OwnerDropped))
}

impl EndRequest {
    fn by_itself(reason: EndReason) -> Self {
        Self {
            reason,
            policy: None,
        }
    }
}

/// Waits for a pump to reach its end, for a moment: somebody else may hold the
/// other end of the pipe.
async fn wait_for(pump: &mut Option<JoinHandle<()>>) {
    if let Some(running) = pump
        && timeout(REST_OF_OUTPUT, running).await.is_ok()
    {
        *pump = None;
    }
}
