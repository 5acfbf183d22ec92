//! The life of one process, from the launch to the proof, in one task.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::revoke::{Revocable, Revoker, revocable};
use super::{Card, Engine, Failure, Key, entropy};
use crate::account::{EndResult, ServerEvent, ServerEventKind, StartReason};
use crate::callback::{guarded, guarded_async};
use crate::client::StartAttempt;
use crate::error::StartError;
use crate::slot::{Demand, End as ProcessEnd, Generation, SlotId};
use crate::{
    ClientState, EndReason, ExitStatus, LifecycleClient, TerminationOutcome, TerminationPolicy,
};

type Launched = Result<(StartAttempt, LifecycleClient), StartError>;

/// What the engine knows of a process that lives, or may.
pub(super) struct Run {
    launch: Revoker<Launched>,
    client: Option<Arc<LifecycleClient>>,
    /// Asks for another attempt to end what is not proven gone.
    pub(super) again: Arc<Notify>,
    pub(super) begun: Instant,
    asked: Option<(EndReason, TerminationPolicy)>,
    killed: bool,
    /// Whether its task has gone without a proof, with its runtime.
    orphaned: bool,
}

/// A process whose task has gone, to be ended by another one.
pub(super) struct Orphan {
    slot: SlotId,
    generation: Generation,
    card: Arc<Card>,
    client: Arc<LifecycleClient>,
    again: Arc<Notify>,
    reason: EndReason,
}

/// A process to be started.
pub(super) struct Start {
    slot: SlotId,
    generation: Generation,
    card: Arc<Card>,
    why: StartReason,
    launch: Revocable<Launched>,
    again: Arc<Notify>,
}

/// A process to be ended.
pub(super) enum End {
    Launch(Revoker<Launched>),
    Client(Arc<LifecycleClient>, EndReason, TerminationPolicy),
}

pub(super) fn prepare<K: Key>(
    engine: &Arc<Engine<K>>,
    slot: SlotId,
    generation: Generation,
    card: &Arc<Card>,
    demand: Demand,
    failures: u32,
) -> (Run, Start) {
    card.begins();
    let (engine, server) = (Arc::clone(engine), Arc::clone(card));
    let (launch, launching) = revocable(async move {
        // The start-up clock begins when the task first runs.
        let mut client = server.config().client();
        if let Some(handlers) = &engine.handlers {
            let make = || handlers(&server);
            match guarded("the maker of handlers", &server.server, make) {
                Some(handler) => client = client.shared_handler(handler),
                None => return Err(StartAttempt::new(client).without_handler()),
            }
        }
        if let Some(lines) = engine.journal.lines(&server.owner) {
            client = client.observer(lines);
        }
        // A launch that hangs must not keep the engine of an owner that has gone.
        drop(engine);
        let attempt = StartAttempt::new(client);
        let client = attempt.launch().await?;
        Ok((attempt, client))
    });
    let again = Arc::new(Notify::new());
    let run = Run {
        launch,
        client: None,
        again: Arc::clone(&again),
        begun: Instant::now(),
        asked: None,
        killed: false,
        orphaned: false,
    };
    let why = match (failures, demand) {
        (0, Demand::Declared) => StartReason::Declared,
        (0, Demand::OnDemand) => StartReason::Wanted,
        (failures, _) => StartReason::Restart { failures },
    };
    let card = Arc::clone(card);
    (
        run,
        Start {
            slot,
            generation,
            card,
            why,
            launch: launching,
            again,
        },
    )
}

impl Run {
    /// What ends it now; later, if the launch is just completing.
    pub(super) fn end(&mut self, reason: EndReason, policy: TerminationPolicy) -> Option<End> {
        if self.asked.is_some() {
            return None;
        }
        self.asked = Some((reason.clone(), policy.clone()));
        Some(match &self.client {
            Some(client) => End::Client(Arc::clone(client), reason, policy),
            None => End::Launch(self.launch.clone()),
        })
    }

    /// What ends it, if its task has gone.
    pub(super) fn adopt(
        &mut self,
        slot: SlotId,
        generation: Generation,
        card: &Arc<Card>,
    ) -> Option<Orphan> {
        let client = self.client.clone().filter(|_| self.orphaned)?;
        self.orphaned = false;
        Some(Orphan {
            slot,
            generation,
            card: Arc::clone(card),
            client,
            again: Arc::clone(&self.again),
            reason: self.asked().cloned().unwrap_or(EndReason::OwnerDropped),
        })
    }

    /// What kills it, synchronously.
    pub(super) fn kill(&mut self) -> impl FnOnce() + use<> {
        self.killed = true;
        let (launch, client) = (self.launch.clone(), self.client.clone());
        move || {
            launch.revoke();
            if let Some(client) = client {
                client.kill_now();
            }
        }
    }

    pub(super) fn client(&self) -> Option<&Arc<LifecycleClient>> {
        self.client.as_ref()
    }

    pub(super) fn asked(&self) -> Option<&EndReason> {
        self.asked.as_ref().map(|(reason, _)| reason)
    }
}

impl End {
    pub(super) fn begin(self) {
        match self {
            Self::Launch(launch) => launch.revoke(),
            Self::Client(client, reason, policy) => client.begin_shutdown(reason, policy),
        }
    }
}

impl Start {
    /// Lives. Dropped before its end, which happens when the runtime goes away,
    /// it leaves a server that has been killed and an account that says so.
    pub(super) fn live<K: Key>(self, engine: Arc<Engine<K>>) -> impl Future<Output = ()> + Send {
        let Self {
            slot,
            generation,
            card,
            why,
            launch,
            again,
        } = self;
        let mut life = Life {
            engine,
            slot,
            generation,
            card,
            told: false,
            over: false,
        };
        async move {
            let server = Arc::clone(&life.card.server);
            let lived = life.run(why, launch, &again);
            if guarded_async("the task of a server", &server, lived)
                .await
                .is_err()
            {
                life.recover(&again).await;
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
            card: self.card,
            told: true,
            over: false,
        };
        async move {
            let policy = TerminationPolicy::immediate();
            let outcome = self.client.shutdown_with(self.reason, policy).await;
            life.end(outcome, &self.client, &self.again).await;
        }
    }
}

struct Life<K: Key> {
    engine: Arc<Engine<K>>,
    slot: SlotId,
    generation: Generation,
    card: Arc<Card>,
    /// Whether its end was told, which happens once.
    told: bool,
    over: bool,
}

impl<K: Key> Life<K> {
    fn tell(&self, kind: ServerEventKind) {
        self.engine.journal.record(&ServerEvent {
            server: Arc::clone(&self.card.server),
            owner: Arc::clone(&self.card.owner),
            generation: self.generation,
            kind,
        });
    }

    async fn run(&mut self, why: StartReason, launch: Revocable<Launched>, again: &Notify) {
        self.tell(ServerEventKind::Starting { why });
        let begun = Instant::now();
        match launch.await {
            None => self.never_launched(),
            Some(Err(error)) => self.launch_failed(error),
            Some(Ok((attempt, client))) => {
                let client = Arc::new(client);
                self.launched(&client);
                let outcome = match attempt.complete(&client).await {
                    Ok(()) => self.serve(&client, begun).await,
                    Err(error) => self.start_failed(error, &client).await,
                };
                self.end(outcome, &client, again).await;
            }
        }
    }

    /// Somebody else's code has panicked in this task: what it started is ended all the
    /// same, and the slot goes on.
    async fn recover(&mut self, again: &Notify) {
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
        self.end(outcome, &client, again).await;
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

    async fn serve(&self, client: &Arc<LifecycleClient>, begun: Instant) -> TerminationOutcome {
        self.tell(ServerEventKind::Ready {
            identity: client.identity(),
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
            Err(error) => error.reason.clone(),
        };
        if matches!(reason, EndReason::ServerExited | EndReason::OutputClosed) {
            let exit = outcome.as_ref().ok().map(|report| report.exit);
            let exit = exit.filter(|exit| *exit != ExitStatus::Unknown);
            self.card.failed(Failure::Died { exit, reason });
        }
        outcome
    }

    async fn start_failed(
        &self,
        mut error: StartError,
        client: &Arc<LifecycleClient>,
    ) -> TerminationOutcome {
        let outcome = match &error.cleanup {
            Some(outcome) => outcome.clone(),
            None => {
                client
                    .shutdown_with(EndReason::StartFailed, TerminationPolicy::default())
                    .await
            }
        };
        if error.cleanup.is_none() {
            error.cleanup = Some(outcome.clone());
        }
        self.failed(error);
        outcome
    }

    fn failed(&self, error: StartError) {
        let error = Arc::new(error);
        self.card.failed(Failure::Start(Arc::clone(&error)));
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

    /// Sees to it that the end is proven, however often it takes.
    async fn end(
        &mut self,
        mut outcome: TerminationOutcome,
        client: &Arc<LifecycleClient>,
        again: &Notify,
    ) {
        loop {
            self.card.ended(outcome.clone());
            let error = match outcome {
                Ok(report) => return self.over(report.reason.clone(), EndResult::Proven(report)),
                Err(error) => error,
            };
            let reason = error.reason.clone();
            self.card.failed(Failure::Unproven(Arc::new(error.clone())));
            self.tell(ServerEventKind::Unproven { error });
            self.account(false);
            tokio::select! {
                () = again.notified() => {}
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
            if let Some(entry) = state.entries.get_mut(&self.slot).filter(|_| proven) {
                entry.run = None;
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
