//! The life of one process, from the launch to the proof, in one task.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::revoke::{Revocable, Revoker, revocable};
use super::{Card, Engine, Failure, Key, entropy};
use crate::account::{EndResult, ServerEvent, ServerEventKind, StartReason};
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
            client = client.shared_handler(handlers(&server));
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
            over: false,
        };
        async move {
            life.tell(ServerEventKind::Starting { why });
            let begun = Instant::now();
            match launch.await {
                None => life.never_launched(),
                Some(Err(error)) => life.launch_failed(error),
                Some(Ok((attempt, client))) => {
                    let client = Arc::new(client);
                    life.launched(&client);
                    let outcome = match attempt.complete(&client).await {
                        Ok(()) => life.serve(&client, begun).await,
                        Err(error) => life.start_failed(error, &client).await,
                    };
                    life.end(outcome, &client, &again).await;
                }
            }
        }
    }
}

struct Life<K: Key> {
    engine: Arc<Engine<K>>,
    slot: SlotId,
    generation: Generation,
    card: Arc<Card>,
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

    fn asked(&self) -> Option<EndReason> {
        let state = self.engine.lock();
        state
            .entries
            .get(&self.slot)?
            .run
            .as_ref()?
            .asked()
            .cloned()
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
            again.notified().await;
            outcome = client
                .shutdown_with(reason, TerminationPolicy::immediate())
                .await;
        }
    }

    fn over(&mut self, reason: EndReason, result: EndResult) {
        self.over = true;
        self.tell(ServerEventKind::Ended { reason, result });
        self.account(true);
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
        self.tell(ServerEventKind::Ended {
            reason,
            result: EndResult::RuntimeLost,
        });
        // Killed, by its client; proven by nobody.
        self.account(false);
    }
}
