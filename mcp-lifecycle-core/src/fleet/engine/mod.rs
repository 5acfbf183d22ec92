//! Carries out what the table decides, with `LifecycleClient`.
//!
//! One mutex guards the table and what belongs to its slots. Under it nothing is
//! awaited, no observer is called and no server is signalled: the orders are
//! collected and carried out after it is released.

mod abort;
mod deadline;
pub(crate) mod lease;
mod list;
mod process;
pub(crate) mod record;
mod run;
pub(crate) mod shutdown;
mod timer;

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::service::{DynService, RoleClient};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::lease::{Answer, Grant};
use self::process::Run;
use self::record::Record;
use self::shutdown::Closed;
use super::acquire_error::AcquireErrorKind;
use super::journal::Journal;
use super::restart::Time;
use super::slots::effect::{Effect, Liveness, SlotId, WaiterId};
use super::slots::settings::{Limits, SlotSettings};
use super::slots::table::Table;
use crate::client::config::ServerConfig;
use crate::client::lifecycle_client::LifecycleClient;
use crate::launch::identity::ServerIdentity;
use crate::terminate::callback::guarded;
use crate::terminate::report::EndReason;
use crate::terminate::timing::after;

/// Key of a table of slots.
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

/// The table, its clock, and its servers.
pub(crate) struct Engine<K: Key> {
    state: Mutex<State<K>>,
    epoch: Instant,
    runtime: Option<Handle>,
    changed: watch::Sender<()>,
    timer: Arc<Notify>,
    closing: Mutex<Option<watch::Receiver<Option<Closed>>>>,
    pub(crate) journal: Arc<Journal>,
    /// Cancelled when the owner drops the engine.
    dropped: CancellationToken,
    /// The time calls may go on when their server is replaced or removed.
    drain: Duration,
    /// The handlers of the servers' own requests.
    handlers: Option<Handlers>,
}

/// Makes the handler of a server's process.
pub(crate) type Handlers = Box<dyn Fn(&Record) -> Arc<dyn DynService<RoleClient>> + Send + Sync>;

pub(crate) struct State<K: Key> {
    pub(crate) table: Table<K, Arc<LifecycleClient>>,
    entries: HashMap<SlotId, Entry>,
    waiters: HashMap<WaiterId, Answer<K>>,
    /// The time when the timer goes off; `None` when it is not set.
    timer_at: Option<Time>,
    timer_runs: bool,
    /// Every end has to be over at this time.
    end_by: Option<Instant>,
}

/// A slot's record, and its process if there is one.
struct Entry {
    record: Arc<Record>,
    run: Option<Run>,
}

/// An action to carry out once the lock is released.
enum Action<K: Key> {
    Start(process::Start),
    End(Arc<Record>, process::End),
    EndAgain(Arc<process::Wishes>),
    Adopt(process::Orphan),
    Answer(Answer<K>, Result<Grant<K>, AcquireErrorKind>),
}

impl<K: Key> Engine<K> {
    pub(crate) fn new(
        limits: Limits,
        journal: Arc<Journal>,
        drain: Duration,
        handlers: Option<Handlers>,
    ) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                table: Table::new(limits),
                entries: HashMap::new(),
                waiters: HashMap::new(),
                timer_at: None,
                timer_runs: false,
                end_by: None,
            }),
            epoch: Instant::now(),
            runtime: Handle::try_current().ok(),
            changed: watch::Sender::new(()),
            timer: Arc::new(Notify::new()),
            closing: Mutex::new(None),
            journal,
            dropped: CancellationToken::new(),
            drain,
            handlers,
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Changes something, and carries out what follows from it.
    pub(crate) fn change<R>(self: &Arc<Self>, change: impl FnOnce(&mut State<K>, Time) -> R) -> R {
        let now = self.now();
        let (result, actions) = {
            let mut state = self.lock();
            let result = change(&mut state, now);
            let actions = self.orders(&mut state, now);
            self.set_timer(&mut state);
            (result, actions)
        };
        for action in actions {
            self.perform(action);
        }
        self.changed.send_replace(());
        result
    }

    fn orders(self: &Arc<Self>, state: &mut State<K>, now: Time) -> Vec<Action<K>> {
        let effects = state.table.take_effects();
        effects
            .into_iter()
            .filter_map(|effect| self.order(state, effect, now))
            .collect()
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
                let entry = state.entries.get_mut(&slot)?;
                let (run, start) =
                    process::prepare(self, slot, generation, &entry.record, demand, failures);
                entry.run = Some(run);
                Some(Action::Start(start))
            }
            Effect::End { slot, reason } => {
                let end_by = state.end_by;
                let entry = state.entries.get_mut(&slot)?;
                let policy = self.policy(&entry.record, &reason, end_by);
                let end = entry.run.as_mut()?.end(reason, policy)?;
                Some(Action::End(Arc::clone(&entry.record), end))
            }
            Effect::EndAgain { slot } => {
                let generation = state.table.slot(slot)?.generation();
                let Entry { record, run } = state.entries.get_mut(&slot)?;
                let run = run.as_mut()?;
                Some(match run.adopt(slot, generation, record) {
                    Some(orphan) => Action::Adopt(orphan),
                    None => Action::EndAgain(Arc::clone(&run.wishes)),
                })
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
            Effect::Removed { slot } => {
                state.entries.remove(&slot);
                None
            }
        }
    }

    fn perform(self: &Arc<Self>, action: Action<K>) {
        match action {
            Action::Start(start) => self.spawn(start.live(Arc::clone(self))),
            Action::Adopt(orphan) => self.spawn(orphan.end(Arc::clone(self))),
            // A launcher that panics must not cost the others what follows.
            Action::End(record, end) => {
                guarded("the launcher", &record.server, || end.begin());
            }
            Action::EndAgain(wishes) => wishes.again.notify_one(),
            // A waiter that has gone drops the grant, which returns the lease.
            Action::Answer(answer, result) => drop(answer.sender.send(result)),
        }
    }

    fn spawn(&self, life: impl Future<Output = ()> + Send + 'static) {
        match Handle::try_current().ok().or_else(|| self.runtime.clone()) {
            Some(runtime) => drop(runtime.spawn(life)),
            // Without any runtime nothing can start or be proven; the life says so.
            None => drop(life),
        }
    }

    /// Adds a slot for a server.
    pub(crate) fn insert(
        state: &mut State<K>,
        key: K,
        settings: SlotSettings,
        record: Arc<Record>,
        now: Time,
    ) -> SlotId {
        let id = state.table.reserve();
        state.entries.insert(id, Entry { record, run: None });
        state.table.insert(id, key, settings, now);
        id
    }

    /// Waits until `check` has an answer. It is asked after every change.
    pub(crate) async fn wait_for<T>(&self, mut check: impl FnMut(&mut State<K>) -> Option<T>) -> T {
        let mut changed = self.changed.subscribe();
        loop {
            changed.borrow_and_update();
            if let Some(answer) = check(&mut self.lock()) {
                return answer;
            }
            if changed.changed().await.is_err() {
                // The engine holds the sender, and the caller the engine.
                std::future::pending::<()>().await;
            }
        }
    }

    pub(crate) fn client(&self, slot: SlotId) -> Option<Arc<LifecycleClient>> {
        self.lock().table.slot(slot)?.gauge().cloned()
    }

    /// Gives up the proof of this identity's end. `false` where no end of it is unproven.
    pub(crate) fn write_off(&self, identity: &ServerIdentity) -> bool {
        let state = self.lock();
        let mut runs = state
            .entries
            .values()
            .filter_map(|entry| entry.run.as_ref());
        let run = runs.find(|run| {
            let client = run.client().filter(|_| run.unproven);
            client.is_some_and(|client| client.identity() == *identity)
        });
        run.inspect(|run| run.wishes.write_off.notify_one())
            .is_some()
    }

    /// Cancelled when the owner drops the engine.
    pub(crate) fn dropped(&self) -> CancellationToken {
        self.dropped.clone()
    }

    /// The synchronous last resort, for `Drop`.
    pub(crate) fn abandon(self: &Arc<Self>) {
        self.dropped.cancel();
        let shutting_down = {
            let closing = self.closing.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// Kills whatever lives, and drops every launch in progress.
    pub(crate) fn kill_now(&self) {
        let kills: Vec<_> = {
            let mut state = self.lock();
            let runs = state.entries.values_mut().filter_map(|entry| {
                let kill = entry.run.as_mut()?.kill();
                Some((Arc::clone(&entry.record.server), kill))
            });
            runs.collect()
        };
        // One launcher that panics must not save the servers of the others.
        for (server, kill) in kills {
            guarded("the launcher", &server, kill);
        }
    }
}

impl<K: Key> State<K> {
    pub(crate) fn record(&self, slot: SlotId) -> Option<Arc<Record>> {
        Some(Arc::clone(&self.entries.get(&slot)?.record))
    }

    /// Takes over what governs a slot, and what its next process is made from.
    pub(crate) fn configure(
        &mut self,
        slot: SlotId,
        settings: SlotSettings,
        config: Arc<ServerConfig>,
    ) {
        self.table.configure(slot, settings);
        if let Some(entry) = self.entries.get(&slot) {
            entry.record.set_config(config);
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
