//! The life of one process, from the launch to the proof, in one task.

use std::sync::Arc;

use tokio::time::Instant;

use super::abort::Abortable;
use super::process::{Launched, Orphan, Start, Wishes};
use super::record::{Failure, Record};
use super::{Engine, Key, entropy};
use crate::client::callback::guarded_async;
use crate::client::era::Era;
use crate::client::error::start::StartError;
use crate::client::event::EndResult;
use crate::client::event::{ServerEvent, ServerEventKind, StartReason};
use crate::client::lifecycle_client::LifecycleClient;
use crate::client::state::ClientState;
use crate::fleet::slots::effect::{End as ProcessEnd, Generation, SlotId};
use crate::launch::exit::ExitStatus;
use crate::terminate::handle::TerminationOutcome;
use crate::terminate::policy::TerminationPolicy;
use crate::terminate::report::EndReason;

impl Start {
    /// Lives. Dropped before its end, which happens when the runtime goes away,
    /// it leaves a server that has been killed and an account that says so.
    pub(super) fn live<K: Key>(self, engine: Arc<Engine<K>>) -> impl Future<Output = ()> + Send {
        let Self {
            slot,
            generation,
            record,
            why,
            launch,
            wishes,
        } = self;
        let mut life = Life {
            engine,
            slot,
            generation,
            record,
            told: false,
            over: false,
        };
        async move {
            let server = Arc::clone(&life.record.server);
            let lived = life.run(why, launch, &wishes);
            if guarded_async("the task of a server", &server, lived)
                .await
                .is_err()
            {
                life.recover(&wishes).await;
            }
        }
    }
}

impl Orphan {
    /// Ends it, however often that takes.
    pub(super) fn end<K: Key>(self, engine: Arc<Engine<K>>) -> impl Future<Output = ()> + Send {
        let mut life = Life {
            engine,
            slot: self.slot,
            generation: self.generation,
            record: self.record,
            told: true,
            over: false,
        };
        async move {
            let policy = TerminationPolicy::immediate();
            let outcome = self.client.shutdown_with(self.reason, policy).await;
            life.end(outcome, &self.client, &self.wishes).await;
        }
    }
}

struct Life<K: Key> {
    engine: Arc<Engine<K>>,
    slot: SlotId,
    generation: Generation,
    record: Arc<Record>,
    /// `true` if its end was told, which happens once.
    told: bool,
    over: bool,
}

impl<K: Key> Life<K> {
    fn tell(&self, kind: ServerEventKind) {
        self.engine.journal.record(&ServerEvent {
            server: Arc::clone(&self.record.server),
            owner: Arc::clone(&self.record.owner),
            generation: self.generation,
            kind,
        });
    }

    async fn run(&mut self, why: StartReason, launch: Abortable<Launched>, wishes: &Wishes) {
        self.tell(ServerEventKind::Starting { why });
        let begun = Instant::now();
        match launch.await {
            None => self.never_launched(),
            Some(Err(error)) => self.launch_failed(error),
            Some(Ok((attempt, client))) => {
                let client = Arc::new(client);
                self.launched(&client);
                let outcome = match attempt.complete(&client).await {
                    Ok(era) => self.serve(&client, era, begun).await,
                    Err(error) => self.start_failed(error, &client).await,
                };
                self.end(outcome, &client, wishes).await;
            }
        }
    }

    /// Somebody else's code has panicked in this task: what it started is ended all the
    /// same, and the slot goes on.
    async fn recover(&mut self, wishes: &Wishes) {
        let client = {
            let state = self.engine.lock();
            let run = state.entries.get(&self.slot).and_then(|e| e.run.as_ref());
            run.and_then(|run| run.client().cloned())
        };
        let Some(client) = client else {
            return self.over(EndReason::StartFailed, EndResult::NeverLaunched);
        };
        let policy = TerminationPolicy::immediate();
        let outcome = client.shutdown_with(EndReason::StartFailed, policy).await;
        self.end(outcome, &client, wishes).await;
    }

    fn asked(&self) -> Option<EndReason> {
        let state = self.engine.lock();
        let run = state.entries.get(&self.slot)?.run.as_ref()?;
        run.asked().cloned()
    }

    /// Hands the client to the engine, and does what was asked for meanwhile.
    fn launched(&self, client: &Arc<LifecycleClient>) {
        let (asked, killed) = {
            let mut state = self.engine.lock();
            let run = state
                .entries
                .get_mut(&self.slot)
                .and_then(|entry| entry.run.as_mut());
            match run {
                Some(run) => {
                    run.client = Some(Arc::clone(client));
                    (run.asked.clone(), run.killed)
                }
                None => (
                    Some((EndReason::Shutdown, TerminationPolicy::immediate())),
                    true,
                ),
            }
        };
        if killed {
            client.kill_now();
        }
        if let Some((reason, policy)) = asked {
            client.begin_shutdown(reason, policy);
        }
    }

    async fn serve(
        &self,
        client: &Arc<LifecycleClient>,
        era: Era,
        begun: Instant,
    ) -> TerminationOutcome {
        self.tell(ServerEventKind::Ready {
            identity: client.identity(),
            era,
            took: begun.elapsed(),
        });
        self.engine.change(|state, now| {
            state
                .table
                .started(self.slot, self.generation, Arc::clone(client), now);
        });
        let mut states = client.state();
        let reason = match states.wait_for(ClientState::is_ending).await.as_deref() {
            Ok(state) => state.end_reason().map(|(reason, _)| reason.clone()),
            Err(_) => None,
        };
        let reason = reason.unwrap_or(EndReason::OwnerDropped);
        self.tell(ServerEventKind::Ending {
            reason: reason.clone(),
        });
        self.engine
            .change(|state, now| state.table.died(self.slot, self.generation, now));
        let outcome = client.ended().await;
        // It may have died while it was ended.
        let reason = match &outcome {
            Ok(report) => report.reason.clone(),
            Err(error) => error.context().reason.clone(),
        };
        if matches!(reason, EndReason::ServerExited | EndReason::OutputClosed) {
            let exit = outcome.as_ref().ok().map(|report| report.exit);
            let exit = exit.filter(|exit| *exit != ExitStatus::Unknown);
            self.record.failed(Failure::Died { exit, reason });
        }
        outcome
    }

    async fn start_failed(
        &self,
        error: StartError,
        client: &Arc<LifecycleClient>,
    ) -> TerminationOutcome {
        let outcome = error.context().cleanup.clone();
        self.failed(error);
        match outcome {
            Some(outcome) => outcome,
            None => {
                let policy = TerminationPolicy::default();
                client.shutdown_with(EndReason::StartFailed, policy).await
            }
        }
    }

    fn failed(&self, error: StartError) {
        self.record.failed(Failure::Start(error.clone()));
        self.tell(match self.asked() {
            Some(reason) => ServerEventKind::Cancelled { reason },
            None => ServerEventKind::Failed { error },
        });
    }

    fn never_launched(&mut self) {
        let reason = self.asked().unwrap_or(EndReason::OwnerDropped);
        self.tell(ServerEventKind::Cancelled {
            reason: reason.clone(),
        });
        self.over(reason, EndResult::NeverLaunched);
    }

    fn launch_failed(&mut self, error: StartError) {
        self.failed(error);
        self.over(EndReason::StartFailed, EndResult::NeverLaunched);
    }

    /// Sees to it that the end is proven, however often it takes, or that somebody writes it off.
    async fn end(
        &mut self,
        mut outcome: TerminationOutcome,
        client: &Arc<LifecycleClient>,
        wishes: &Wishes,
    ) {
        loop {
            self.record.ended(outcome.clone());
            let error = match outcome {
                Ok(report) => return self.over(report.reason.clone(), EndResult::Proven(report)),
                Err(error) => error,
            };
            let reason = error.context().reason.clone();
            self.record
                .failed(Failure::Unproven(Arc::new(error.clone())));
            self.tell(ServerEventKind::Unproven {
                error: error.clone(),
            });
            self.account(false);
            tokio::select! {
                biased;
                () = wishes.write_off.notified() => {
                    self.record.begins();
                    return self.over(reason, EndResult::WrittenOff(error));
                }
                () = wishes.again.notified() => {}
                () = client.provable() => {}
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
        self.engine.change(|state, now| {
            if let Some(entry) = state.entries.get_mut(&self.slot) {
                match (&mut entry.run, proven) {
                    (Some(run), false) => run.unproven = true,
                    (run, _) => *run = None,
                }
            }
            let end = ProcessEnd {
                generation: self.generation,
                proven,
                entropy: entropy(),
            };
            state.table.ended(self.slot, end, now);
        });
    }
}

impl<K: Key> Drop for Life<K> {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let reason = self.asked().unwrap_or(EndReason::OwnerDropped);
        self.tell_end(reason, EndResult::RuntimeLost);
        let launched = {
            let mut state = self.engine.lock();
            let entry = state.entries.get_mut(&self.slot);
            let run = entry.and_then(|entry| entry.run.as_mut());
            run.is_some_and(|run| {
                run.orphaned = true;
                run.client.is_some()
            })
        };
        // Killed, by its client, and proven by nobody yet; or a launch that was dropped.
        self.account(!launched);
    }
}
