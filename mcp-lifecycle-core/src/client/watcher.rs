//! The task that watches over one server, and ends it in order.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::event::ServerEventKind;
use super::owner::Owner;
use super::state::ClientState;
use crate::launch::exit::ExitStatus;
use crate::terminate::handle::TerminationOutcome;
use crate::terminate::policy::TerminationPolicy;
use crate::terminate::report::EndReason;
use crate::terminate::timing::{EXIT_AFTER_OUTPUT, REST_OF_OUTPUT, after};

/// The tasks that carry a connection's bytes.
pub(super) struct Pumps {
    pub(super) writer: JoinHandle<()>,
    pub(super) stderr: Option<JoinHandle<()>>,
}

/// The task that watches over one server. Dropped unfinished, which happens
/// when its runtime goes away, it kills the server synchronously.
pub(super) struct Watcher {
    owner: Arc<Owner>,
    done: bool,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        self.owner.handle.kill_now();
        self.owner.unwatched.cancel();
        // Calls fail, and whoever looks at the state sees that it is over.
        let state = &self.owner.session.state;
        let reason = state.borrow().end_reason().map(|(r, _)| r.clone());
        // Asks the launcher who the server is, which must be under no lock.
        let lost = self
            .owner
            .handle
            .lost(reason.unwrap_or(EndReason::OwnerDropped));
        state.send_if_modified(|state| {
            // Whoever was waiting may have ended it by now, with the proof.
            let open = !state.is_ended();
            if open {
                *state = ClientState::Ended { outcome: Err(lost) };
            }
            open
        });
    }
}

/// How a server ended by itself.
struct Death {
    reason: EndReason,
    exit: Option<ExitStatus>,
}

impl Watcher {
    pub(super) fn new(owner: Arc<Owner>) -> Self {
        Self { owner, done: false }
    }

    pub(super) async fn run(mut self, pumps: Pumps) {
        let outcome = self.watch(pumps).await;
        self.done = true;
        self.owner.publish(&outcome);
    }

    /// Waits until the server is to be ended, or has ended by itself, and ends it.
    async fn watch(&self, pumps: Pumps) -> TerminationOutcome {
        let session = &self.owner.session;
        let mut state = self.owner.state();
        let mut by_itself = std::pin::pin!(self.by_itself());
        let death = tokio::select! {
            biased;
            _ = state.wait_for(ClientState::is_ending) => None,
            death = &mut by_itself => Some(death),
        };
        let policy = match self.owner.asked.get() {
            Some(asked) => asked.clone(),
            None => self.owner.policy.clone(),
        };
        let clock = EndClock::new(&policy);
        let death = match death {
            Some(death) => {
                self.dies(&death);
                self.tell_ending(&death.reason);
                Some(death)
            }
            None => {
                let reason = session.state.borrow().end_reason().map(|(r, _)| r.clone());
                self.tell_ending(&reason.unwrap_or(EndReason::OwnerDropped));
                // Those in flight may complete; a death overtakes them.
                session.calls.close();
                let drained = async {
                    if !session.state.borrow().is_closed() {
                        let _ = timeout(policy.drain, session.calls.wait()).await;
                    }
                };
                let death = tokio::select! {
                    biased;
                    () = drained => None,
                    death = &mut by_itself => Some(death),
                };
                death.inspect(|death| self.dies(death))
            }
        };
        self.end(death, &policy, &clock, pumps).await
    }

    async fn by_itself(&self) -> Death {
        let Owner {
            handle, session, ..
        } = &*self.owner;
        let died = |exit| Death {
            reason: EndReason::ServerExited,
            exit: Some(exit),
        };
        let mut exited = std::pin::pin!(handle.watch_exit());
        tokio::select! {
            biased;
            exit = &mut exited => return died(exit),
            () = session.wire.output_ended.cancelled() => {}
        }
        match timeout(EXIT_AFTER_OUTPUT, exited).await {
            Ok(exit) => died(exit),
            Err(_) => Death {
                reason: EndReason::OutputClosed,
                exit: None,
            },
        }
    }

    /// From now on that is the reason, also of an end that somebody asked for.
    fn dies(&self, death: &Death) {
        let Owner {
            session, observed, ..
        } = &*self.owner;
        session.state.send_replace(ClientState::Ending {
            reason: death.reason.clone(),
            exit: death.exit,
            draining: true,
        });
        if let Some(exit) = death.exit {
            observed.event(ServerEventKind::Exited { exit });
            session.wire.exited.cancel();
        }
    }

    fn tell_ending(&self, reason: &EndReason) {
        let reason = reason.clone();
        self.owner
            .observed
            .event(ServerEventKind::Ending { reason });
    }

    async fn end(
        &self,
        death: Option<Death>,
        policy: &TerminationPolicy,
        clock: &EndClock,
        mut pumps: Pumps,
    ) -> TerminationOutcome {
        let Owner {
            handle,
            session,
            service,
            ..
        } = &*self.owner;
        let has_exited = death.as_ref().is_some_and(|death| death.exit.is_some());
        if has_exited {
            // What it said last still counts.
            let output = session.wire.output_ended.cancelled();
            let _ = timeout(clock.rest(), output).await;
        }
        let reason = match &*session.state.borrow() {
            ClientState::Ending { reason, .. } => reason.clone(),
            _ => EndReason::OwnerDropped,
        };
        session.wire.cancel_all_and_close(reason.as_str());
        if has_exited {
            // Its last words belong into the errors of its calls.
            wait_for(&mut pumps.stderr, clock.rest()).await;
        }
        session.state.send_if_modified(|state| match state {
            ClientState::Ending { draining, .. } => std::mem::take(draining),
            _ => false,
        });
        if death.is_none() && !session.wire.outbox.is_empty() {
            let _ = timeout(policy.flush, &mut pumps.writer).await;
        }
        // Whoever is told of a failure wants the server's last words with it.
        let explain = death.is_some() || reason == EndReason::StartFailed;
        let rungs = TerminationPolicy {
            report_limit: policy.report_limit.min(clock.spare()),
            ..policy.clone()
        };
        let outcome = {
            let mut drain = std::pin::pin!(session.wire.drain_output());
            let mut end = std::pin::pin!(handle.terminate_here(&rungs, reason, clock.begun));
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
            wait_for(&mut pumps.stderr, clock.rest_of_all()).await;
        }
        outcome
    }
}

/// The time of one end: all of it takes no longer than the policy's longest.
struct EndClock {
    begun: Instant,
    over: Instant,
    /// The time when the steps beside the ladder have used up what they may take.
    spare_until: Instant,
}

impl EndClock {
    fn new(policy: &TerminationPolicy) -> Self {
        let begun = Instant::now();
        Self {
            begun,
            over: after(begun, policy.longest()),
            spare_until: after(begun, policy.beside_rungs()),
        }
    }

    /// The time that is left beside the rungs of the ladder, before they are climbed.
    fn spare(&self) -> Duration {
        self.spare_until.saturating_duration_since(Instant::now())
    }

    /// The time to wait for the rest of some output before the ladder.
    fn rest(&self) -> Duration {
        REST_OF_OUTPUT.min(self.spare())
    }

    /// The same, after the ladder.
    fn rest_of_all(&self) -> Duration {
        REST_OF_OUTPUT.min(self.over.saturating_duration_since(Instant::now()))
    }
}

/// Waits for a pump to reach its end, for a moment: somebody else may hold the
/// other end of the pipe.
async fn wait_for(pump: &mut Option<JoinHandle<()>>, limit: Duration) {
    if let Some(running) = pump
        && timeout(limit, running).await.is_ok()
    {
        *pump = None;
    }
}
