//! Carries out the table's decisions, with `LifecycleClient`.
//!
//! One mutex guards the table and its slots. Under it nothing is awaited, no observer is called and
//! no server is signalled: orders are collected and carried out after it is released.

mod abort;
pub(crate) mod lease;
mod list;
mod process;
pub(crate) mod record;
mod run;
mod settings;
pub(crate) mod shutdown;
mod timer;

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::abort::Abortable;
use self::lease::{Answer, Grant};
use self::process::{Launched, Process};
use self::record::Record;
use self::run::Life;
use self::settings::Handlers;
pub(crate) use self::settings::Settings;
use super::journal::Journal;
use super::restart::Time;
use super::slots::effect::{Effect, Liveness, SlotId, WaiterId};
use super::slots::settings::{Demand, SlotSettings};
use super::slots::table::Table;
use crate::client::{LifecycleClient, ServerConfig, StartReason};
use crate::fleet::{AcquireErrorKind, ShutdownReport};
use crate::launch::ServerIdentity;
use crate::lock::Lock;
use crate::terminate::callback::guarded;
use crate::terminate::timing::after;
use crate::terminate::{EndReason, TerminationPolicy};

pub(crate) trait Key: Clone + Eq + Hash + Send + 'static {}
impl<K: Clone + Eq + Hash + Send + 'static> Key for K {}

impl Liveness for Arc<LifecycleClient> {
    fn is_busy(&self) -> bool {
        self.in_flight() > 0
    }

    fn is_dead(&self) -> bool {
        !self.is_ready()
    }
}

pub(crate) struct Engine<K: Key> {
    pub(crate) state: Lock<State<K>>,
    epoch: Instant,
    runtime: Option<Handle>,
    changed: watch::Sender<()>,
    timer: Arc<Notify>,
    closing: Lock<Option<watch::Receiver<Option<ShutdownReport>>>>,
    journal: Arc<Journal>,
    /// Cancelled when the owner drops the engine.
    dropped: CancellationToken,
    pub(crate) owner: Arc<str>,
    drain: Duration,
    handlers: Option<Handlers>,
}

pub(crate) struct State<K: Key> {
    pub(crate) table: Table<K, Arc<LifecycleClient>, Entry>,
    waiters: HashMap<WaiterId, Answer<K>>,
    /// The time at which the timer fires; `None` if it is not set.
    timer_at: Option<Time>,
    timer_runs: bool,
    /// The deadline of every end.
    end_by: Option<Instant>,
}

pub(crate) struct Entry {
    record: Arc<Record>,
    process: Option<Arc<Process>>,
}

/// An action to carry out once the lock is released.
enum Action<K: Key> {
    Start(Arc<Process>, StartReason, Abortable<Launched>),
    End(Arc<Process>, EndReason, TerminationPolicy),
    EndAgain(Arc<Process>),
    Answer(Answer<K>, Result<Grant<K>, AcquireErrorKind>),
}

impl<K: Key> Engine<K> {
    pub(crate) fn new(settings: Settings) -> Arc<Self> {
        Arc::new(Self {
            state: Lock::new(State {
                table: Table::new(settings.limits),
                waiters: HashMap::new(),
                timer_at: None,
                timer_runs: false,
                end_by: None,
            }),
            epoch: Instant::now(),
            runtime: Handle::try_current().ok(),
            changed: watch::Sender::new(()),
            timer: Arc::new(Notify::new()),
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

    fn at(&self, instant: Instant) -> Time {
        instant.saturating_duration_since(self.epoch)
    }

    pub(crate) fn instant(&self, time: Time) -> Instant {
        after(self.epoch, time)
    }

    /// Changes the state and carries out the resulting orders.
    pub(crate) fn change<R>(self: &Arc<Self>, change: impl FnOnce(&mut State<K>, Time) -> R) -> R {
        let now = self.now();
        let (result, actions) = {
            let mut state = self.state.lock();
            let result = change(&mut state, now);
            let effects = state.table.take_effects().into_iter();
            let actions: Vec<_> = effects
                .filter_map(|effect| self.order(&mut state, effect, now))
                .collect();
            if let Some(at) = state.table.next_deadline() {
                self.advance_timer(&mut state, at);
            }
            (result, actions)
        };
        for action in actions {
            self.perform(action);
        }
        self.changed.send_replace(());
        result
    }

    fn order(
        self: &Arc<Self>,
        state: &mut State<K>,
        effect: Effect,
        now: Time,
    ) -> Option<Action<K>> {
        match effect {
            Effect::Start { slot, generation } => {
                let failures = state.table.slot(slot)?.failures();
                let demand = state.table.slot(slot)?.demand();
                let entry = state.table.entry_mut(slot)?;
                let (process, launch) = Process::new(self, slot, generation, &entry.record);
                entry.process = Some(Arc::clone(&process));
                let why = match (failures, demand) {
                    (0, Demand::Declared) => StartReason::Declared,
                    (0, Demand::OnDemand) => StartReason::Wanted,
                    (failures, _) => StartReason::Restart { failures },
                };
                Some(Action::Start(process, why, launch))
            }
            Effect::End { slot, reason } => {
                let entry = state.table.entry(slot)?;
                let policy = self.policy(&entry.record, &reason, state.end_by);
                let process = Arc::clone(entry.process.as_ref()?);
                Some(Action::End(process, reason, policy))
            }
            Effect::EndAgain { slot } => {
                let process = state.table.entry(slot)?.process.as_ref()?;
                Some(Action::EndAgain(Arc::clone(process)))
            }
            Effect::Grant {
                waiter,
                slot,
                generation,
            } => {
                let answer = state.waiters.remove(&waiter)?;
                let grant = self.grant(state, slot, generation)?;
                Some(Action::Answer(answer, Ok(grant)))
            }
            Effect::Refuse { waiter, refusal } => {
                let answer = state.waiters.remove(&waiter)?;
                let refused = self.refused(state, &answer.record, refusal, now);
                Some(Action::Answer(answer, Err(refused)))
            }
        }
    }

    fn perform(self: &Arc<Self>, action: Action<K>) {
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
            // If the waiter is gone, dropping the grant returns the lease.
            Action::Answer(answer, result) => drop(answer.sender.send(result)),
        }
    }

    fn spawn(&self, life: impl Future<Output = ()> + Send + 'static) {
        match Handle::try_current().ok().or_else(|| self.runtime.clone()) {
            Some(runtime) => drop(runtime.spawn(life)),
            // Without a runtime nothing can start or be proven; dropping the life records that.
            None => drop(life),
        }
    }

    /// Waits until `check` returns a value. It is called after every change.
    pub(crate) async fn wait_for<T>(&self, mut check: impl FnMut(&mut State<K>) -> Option<T>) -> T {
        let mut changed = self.changed.subscribe();
        loop {
            changed.borrow_and_update();
            if let Some(answer) = check(&mut self.state.lock()) {
                return answer;
            }
            if changed.changed().await.is_err() {
                // The caller holds the engine, and the engine the sender.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Gives up the proof of this identity's end. Returns `false` if no end of it is unproven.
    pub(crate) fn write_off(&self, identity: &ServerIdentity) -> bool {
        let process = self.processes().into_iter().find(|process| {
            let unproven = process.state.lock().unproven;
            let client = process.client().filter(|_| unproven);
            client.is_some_and(|client| client.identity() == *identity)
        });
        process
            .inspect(|process| process.write_off.notify_one())
            .is_some()
    }

    fn processes(&self) -> Vec<Arc<Process>> {
        let state = self.state.lock();
        let entries = state.table.entries();
        let processes = entries.filter_map(|entry| entry.process.clone());
        processes.collect()
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

    /// Ends everything synchronously, for `Drop`.
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
        self.timer.notify_one();
    }

    /// Kills all processes and drops every launch in progress.
    pub(crate) fn kill_now(&self) {
        // A launcher's panic must not save other servers.
        for process in self.processes() {
            guarded("the launcher", &process.record.server, || process.kill());
        }
    }
}

impl<K: Key> State<K> {
    pub(crate) fn record(&self, slot: SlotId) -> Option<Arc<Record>> {
        Some(Arc::clone(&self.table.entry(slot)?.record))
    }

    pub(crate) fn insert(
        &mut self,
        key: K,
        settings: SlotSettings,
        record: Arc<Record>,
        now: Time,
    ) -> SlotId {
        let process = None;
        let entry = Entry { record, process };
        self.table.insert(key, entry, settings, now)
    }

    pub(crate) fn configure(
        &mut self,
        slot: SlotId,
        settings: SlotSettings,
        config: Arc<ServerConfig>,
    ) {
        self.table.configure(slot, settings);
        if let Some(entry) = self.table.entry(slot) {
            entry.record.inner.lock().config = config;
        }
    }

    pub(crate) fn is_live(&self, slot: SlotId) -> bool {
        self.table
            .slot(slot)
            .is_some_and(crate::fleet::slots::slot::Slot::is_live)
    }
}

/// Random enough to spread retries.
fn entropy() -> u64 {
    RandomState::new().hash_one(0)
}
