//! Carries out the table's decisions, with `LifecycleClient`.
//!
//! One mutex guards the table and its slots. Under it nothing is awaited, no observer is called and
//! no server is signalled: orders are collected and carried out after it is released.

mod abort;
pub(crate) mod key;
mod list;
mod process;
pub(crate) mod record;
mod run;
mod settings;
pub(crate) mod shutdown;
mod timer;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::abort::Abortable;
use self::key::Key;
use self::process::{Launched, Process};
use self::record::{Failure, Record};
use self::run::Life;
use self::settings::Handlers;
pub(crate) use self::settings::Settings;
use self::timer::Timer;
use super::journal::Journal;
use super::restart::Time;
use super::slots::effect::{self, Effect, SlotId, WaiterId};
use super::slots::settings::{Demand, SlotSettings};
use super::slots::table::Table;
use crate::client::{LifecycleClient, ServerConfig, StartReason};
use crate::fleet::{AcquireErrorKind, Lease, ShutdownReport};
use crate::launch::ServerIdentity;
use crate::lock::Lock;
use crate::terminate::callback::guarded;
use crate::terminate::timing::after;
use crate::terminate::{EndReason, TerminationPolicy};

pub(crate) struct Engine {
    pub(crate) state: Lock<State>,
    epoch: Instant,
    runtime: Option<Handle>,
    changed: watch::Sender<()>,
    closing: Lock<Option<watch::Receiver<Option<ShutdownReport>>>>,
    journal: Arc<Journal>,
    dropped: CancellationToken,
    pub(crate) owner: Arc<str>,
    drain: Duration,
    handlers: Option<Handlers>,
}

pub(crate) struct State {
    pub(crate) table: Table<Entry>,
    pub(crate) waiters: HashMap<WaiterId, Answer>,
    timer: Option<Timer>,
    end_by: Option<Instant>,
}

pub(crate) type Answer = oneshot::Sender<Result<Lease, AcquireErrorKind>>;

pub(crate) struct Entry {
    pub(crate) key: Key,
    pub(crate) record: Arc<Record>,
    process: Option<Arc<Process>>,
}

impl Entry {
    pub(crate) fn client(&self) -> Option<&Arc<LifecycleClient>> {
        self.process.as_ref()?.client.get()
    }
}

impl effect::Entry for Entry {
    type Key = Key;

    fn key(&self) -> &Key {
        &self.key
    }

    fn server(&self) -> &Arc<str> {
        &self.record.server
    }

    fn owner(&self) -> &Arc<str> {
        &self.record.owner
    }

    fn is_busy(&self) -> bool {
        self.client().is_some_and(|client| client.in_flight() > 0)
    }

    fn is_dead(&self) -> bool {
        !self.client().is_some_and(|client| client.is_ready())
    }

    fn failure(&self) -> Option<Failure> {
        self.record.failure()
    }
}

enum Action {
    Start(Arc<Process>, StartReason, Abortable<Launched>),
    End(Arc<Process>, EndReason, TerminationPolicy),
    EndAgain(Arc<Process>),
    Answer(Answer, Result<Lease, AcquireErrorKind>),
}

impl Engine {
    pub(crate) fn new(settings: Settings) -> Arc<Self> {
        Arc::new(Self {
            state: Lock::new(State {
                table: Table::new(settings.limits),
                waiters: HashMap::new(),
                timer: None,
                end_by: None,
            }),
            epoch: Instant::now(),
            runtime: Handle::try_current().ok(),
            changed: watch::Sender::new(()),
            closing: Lock::new(None),
            journal: Arc::new(Journal(settings.observer)),
            dropped: CancellationToken::new(),
            owner: settings.owner,
            drain: settings.drain,
            handlers: settings.handlers,
        })
    }

    pub(crate) fn now(&self) -> Time {
        self.at(Instant::now())
    }

    pub(crate) fn at(&self, instant: Instant) -> Time {
        instant.saturating_duration_since(self.epoch)
    }

    pub(crate) fn instant(&self, time: Time) -> Instant {
        after(self.epoch, time)
    }

    pub(crate) fn change<R>(self: &Arc<Self>, change: impl FnOnce(&mut State, Time) -> R) -> R {
        let now = self.now();
        let (result, actions) = {
            let mut state = self.state.lock();
            let result = change(&mut state, now);
            let effects = state.table.take_effects().into_iter();
            let actions: Vec<_> = effects
                .filter_map(|effect| self.order(&mut state, effect))
                .collect();
            match state.table.next_deadline() {
                Some(at) => self.advance_timer(&mut state, at),
                None => state.timer = None,
            }
            (result, actions)
        };
        for action in actions {
            self.perform(action);
        }
        self.changed.send_replace(());
        result
    }

    fn order(self: &Arc<Self>, state: &mut State, effect: Effect) -> Option<Action> {
        match effect {
            Effect::Start { slot, generation } => {
                let started = state.table.slot(slot)?;
                let why = match (started.failures(), started.settings.demand) {
                    (0, Demand::Declared) => StartReason::Declared,
                    (0, Demand::OnDemand) => StartReason::Wanted,
                    (failures, _) => StartReason::Restart { failures },
                };
                let entry = state.table.entry_mut(slot)?;
                let (process, launch) = Process::new(self, slot, generation, entry);
                entry.process = Some(Arc::clone(&process));
                Some(Action::Start(process, why, launch))
            }
            Effect::End { slot, reason } => {
                let entry = &state.table.slot(slot)?.entry;
                let policy = self.policy(&entry.record, &reason, state.end_by);
                let process = Arc::clone(entry.process.as_ref()?);
                Some(Action::End(process, reason, policy))
            }
            Effect::EndAgain { slot } => {
                let process = state.table.slot(slot)?.entry.process.as_ref()?;
                Some(Action::EndAgain(Arc::clone(process)))
            }
            Effect::Grant {
                waiter,
                slot,
                generation,
            } => {
                let answer = state.waiters.remove(&waiter)?;
                let lease = Lease::new(self, state.table.slot(slot)?, generation)?;
                Some(Action::Answer(answer, Ok(lease)))
            }
            Effect::Refuse { waiter, refusal } => {
                let answer = state.waiters.remove(&waiter)?;
                Some(Action::Answer(answer, Err(refusal)))
            }
        }
    }

    fn perform(self: &Arc<Self>, action: Action) {
        match action {
            Action::Start(process, why, launch) => {
                self.spawn(Life::new(Arc::clone(self), process).live(why, launch));
            }
            // A launcher's panic must not keep the other orders from being carried out.
            Action::End(process, reason, policy) => {
                guarded("the launcher", &process.record.server, || {
                    process.end(reason, policy);
                });
            }
            Action::EndAgain(process) => {
                let orphaned = std::mem::take(&mut process.state.lock().orphaned);
                match orphaned {
                    true => self.spawn(Life::new(Arc::clone(self), process).adopt()),
                    false => process.again.notify_one(),
                }
            }
            // If the waiter is gone, dropping the lease returns it.
            Action::Answer(answer, result) => drop(answer.send(result)),
        }
    }

    fn runtime(&self) -> Option<Handle> {
        Handle::try_current().ok().or_else(|| self.runtime.clone())
    }

    fn spawn(&self, life: impl Future<Output = ()> + Send + 'static) {
        match self.runtime() {
            Some(runtime) => drop(runtime.spawn(life)),
            // Without a runtime nothing can start or be proven; dropping the life records that.
            None => drop(life),
        }
    }

    /// Waits until `check` returns a value. It is called after every change.
    pub(crate) async fn wait_for<T>(&self, mut check: impl FnMut(&mut State) -> Option<T>) -> T {
        let mut changed = self.changed.subscribe();
        loop {
            changed.borrow_and_update();
            if let Some(answer) = check(&mut self.state.lock()) {
                return answer;
            }
            if changed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    pub(crate) fn write_off(&self, identity: &ServerIdentity) -> bool {
        let process = self.processes().into_iter().find(|process| {
            let unproven = process.state.lock().unproven;
            let client = process.client.get().filter(|_| unproven);
            client.is_some_and(|client| client.identity() == *identity)
        });
        process
            .inspect(|process| process.write_off.notify_one())
            .is_some()
    }

    fn processes(&self) -> Vec<Arc<Process>> {
        let state = self.state.lock();
        let slots = state.table.slots();
        slots
            .filter_map(|slot| slot.entry.process.clone())
            .collect()
    }

    /// Shuts down when `end` completes. Keeps no engine alive meanwhile.
    pub(crate) fn tie_to(
        self: &Arc<Self>,
        end: impl Future<Output = ()> + Send + 'static,
        within: Duration,
    ) {
        let (engine, dropped) = (Arc::downgrade(self), self.dropped.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = end => {}
                // Dropping it has already ended everything.
                () = dropped.cancelled_owned() => return,
            }
            if let Some(engine) = engine.upgrade()
                && let Err(error) = engine.close(within).await.proven()
            {
                tracing::warn!(%error, "servers not proven gone after their owner's end");
            }
        });
    }

    pub(crate) fn abandon(self: &Arc<Self>) {
        self.dropped.cancel();
        let shutting_down = {
            let closing = self.closing.lock();
            closing
                .as_ref()
                .is_some_and(|run| run.has_changed().is_ok())
        };
        if shutting_down {
            return;
        }
        self.kill_now();
        self.change(|state, now| {
            state.end_by = Some(Instant::now());
            state.table.close(&EndReason::OwnerDropped, now);
        });
    }

    pub(crate) fn kill_now(&self) {
        for process in self.processes() {
            guarded("the launcher", &process.record.server, || process.kill());
        }
    }
}

impl State {
    pub(crate) fn record(&self, slot: SlotId) -> Option<Arc<Record>> {
        Some(Arc::clone(&self.table.slot(slot)?.entry.record))
    }

    pub(crate) fn insert(
        &mut self,
        key: Key,
        settings: SlotSettings,
        record: Arc<Record>,
        now: Time,
    ) -> SlotId {
        let process = None;
        let entry = Entry {
            key,
            record,
            process,
        };
        self.table.insert(entry, settings, now)
    }

    pub(crate) fn configure(
        &mut self,
        slot: SlotId,
        settings: SlotSettings,
        config: Arc<ServerConfig>,
    ) {
        self.table.configure(slot, settings);
        if let Some(slot) = self.table.slot(slot) {
            slot.entry.record.inner.lock().config = config;
        }
    }
}

fn entropy() -> u64 {
    RandomState::new().hash_one(0)
}
