//! The life of one process, from the launch to the proof, in one task.

use std::sync::Arc;

use super::abort::Abortable;
use super::process::{Launched, Process};
use super::record::Failure;
use super::{Engine, entropy};
use crate::client::{
    ClientState, EndResult, Era, LifecycleClient, ServerEventKind, StartError, StartReason,
};
use crate::launch::ExitStatus;
use crate::terminate::callback::guarded_async;
use crate::terminate::{EndReason, TerminationOutcome, TerminationPolicy};

/// The task of one process. If dropped early, as when its runtime ends, it leaves a killed server
/// and a record of that.
pub(super) struct Life {
    engine: Arc<Engine>,
    process: Arc<Process>,
    told: bool,
    over: bool,
}

impl Life {
    pub(super) fn new(engine: Arc<Engine>, process: Arc<Process>) -> Self {
        Self {
            engine,
            process,
            told: false,
            over: false,
        }
    }

    /// Launches the process, and stays with it until its end is proven or written off.
    pub(super) async fn live(mut self, why: StartReason, launch: Abortable<Launched>) {
        let server = Arc::clone(&self.process.record.server);
        let lived = guarded_async("the task of a server", &server, self.run(why, launch));
        if lived.await.is_err() {
            // Foreign code panicked. The slot stays usable.
            self.end_now(EndReason::StartFailed).await;
        }
    }

    /// Ends a process whose task was lost and has reported its end.
    pub(super) fn adopt(mut self) -> impl Future<Output = ()> + Send {
        // Also where the task is dropped before it runs.
        self.told = true;
        async move {
            let reason = self.process.asked().unwrap_or(EndReason::OwnerDropped);
            self.end_now(reason).await;
        }
    }

    fn tell(&self, kind: ServerEventKind) {
        self.process.observed.report(kind);
    }

    async fn run(&mut self, why: StartReason, launch: Abortable<Launched>) {
        self.tell(ServerEventKind::Starting { why });
        match launch.await {
            None => {
                let reason = self.process.asked().unwrap_or(EndReason::OwnerDropped);
                self.tell(ServerEventKind::Cancelled {
                    reason: reason.clone(),
                });
                self.over(reason, EndResult::NeverLaunched);
            }
            Some(Err(error)) => {
                self.failed(error);
                self.over(EndReason::StartFailed, EndResult::NeverLaunched);
            }
            Some(Ok((attempt, client))) => {
                let client = Arc::new(client);
                self.process.launched(&client);
                let outcome = match attempt.complete(&client).await {
                    Ok(era) => self.serve(&client, era).await,
                    Err(error) => {
                        self.failed(error);
                        client.ended().await
                    }
                };
                self.end(outcome, &client).await;
            }
        }
    }

    async fn serve(&self, client: &Arc<LifecycleClient>, era: Era) -> TerminationOutcome {
        let Process {
            slot, generation, ..
        } = *self.process;
        self.tell(ServerEventKind::Ready {
            identity: client.identity(),
            era,
            took: self.process.begun.elapsed(),
        });
        self.engine
            .change(|state, now| state.table.started(slot, generation, now));
        let mut states = client.state();
        let reason = match states.wait_for(ClientState::is_ending).await.as_deref() {
            Ok(state) => state.end_reason().map(|(reason, _)| reason.clone()),
            Err(_) => None,
        };
        let reason = reason.unwrap_or(EndReason::OwnerDropped);
        self.tell(ServerEventKind::Ending { reason });
        self.engine
            .change(|state, now| state.table.died(slot, generation, now));
        let outcome = client.ended().await;
        let reason = match &outcome {
            Ok(report) => report.reason.clone(),
            Err(error) => error.context().reason.clone(),
        };
        if reason == EndReason::ServerExited {
            let exit = outcome.as_ref().map(|report| report.exit);
            let exit = exit.unwrap_or(ExitStatus::Unknown);
            self.process.record.failed(Failure::Died(exit));
        } else if reason.is_servers_own() {
            self.process.record.failed(Failure::Closed(reason));
        }
        outcome
    }

    fn failed(&self, error: StartError) {
        self.process.record.failed(Failure::Start(error.clone()));
        self.tell(match self.process.asked() {
            Some(reason) => ServerEventKind::Cancelled { reason },
            None => ServerEventKind::Failed { error },
        });
    }

    async fn end_now(&mut self, reason: EndReason) {
        let Some(client) = self.process.client.get().cloned() else {
            return self.over(reason, EndResult::NeverLaunched);
        };
        let policy = TerminationPolicy::immediate();
        let outcome = client.shutdown_with(reason, policy).await;
        self.end(outcome, &client).await;
    }

    async fn end(&mut self, mut outcome: TerminationOutcome, client: &Arc<LifecycleClient>) {
        let process = Arc::clone(&self.process);
        loop {
            process.record.inner.lock().outcome = Some(outcome.clone());
            let error = match outcome {
                Ok(report) => return self.over(report.reason.clone(), EndResult::Proven(report)),
                Err(error) => error,
            };
            let reason = error.context().reason.clone();
            process
                .record
                .failed(Failure::Unproven(Arc::new(error.clone())));
            self.tell(ServerEventKind::Unproven {
                error: error.clone(),
            });
            self.account(false);
            tokio::select! {
                biased;
                () = process.write_off.notified() => {
                    process.record.inner.lock().outcome = None;
                    return self.over(reason, EndResult::WrittenOff(error));
                }
                () = process.again.notified() => {}
                () = client.handle.provable() => {}
            }
            outcome = client
                .shutdown_with(reason, TerminationPolicy::immediate())
                .await;
        }
    }

    fn over(&mut self, reason: EndReason, result: EndResult) {
        self.over = true;
        self.tell_end(reason, result);
        self.account(true);
    }

    fn tell_end(&mut self, reason: EndReason, result: EndResult) {
        if !std::mem::replace(&mut self.told, true) {
            self.tell(ServerEventKind::Ended { reason, result });
        }
    }

    fn account(&self, proven: bool) {
        let Process {
            slot, generation, ..
        } = *self.process;
        self.process.state.lock().unproven = !proven;
        self.engine.change(|state, now| {
            if let Some(entry) = state.table.entry_mut(slot).filter(|_| proven) {
                entry.process = None;
            }
            let table = &mut state.table;
            table.ended(slot, generation, proven, entropy(), now);
        });
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let reason = self.process.asked().unwrap_or(EndReason::OwnerDropped);
        self.tell_end(reason, EndResult::RuntimeLost);
        self.process.state.lock().orphaned = true;
        // Killed by its client without proof, or a dropped launch.
        self.account(self.process.client.get().is_none());
    }
}
