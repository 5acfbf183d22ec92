use std::collections::{HashMap, VecDeque};

use super::effect::{Effect, Entry, Generation, SlotId, WaiterId};
use super::settings::{Demand, Limits, SlotSettings};
use super::slot::Slot;
use crate::fleet::restart::Time;
use crate::fleet::{AcquireErrorKind, ServerState};
use crate::terminate::EndReason;

const REMEMBERED: usize = 1024;

/// All slots of one owner. Methods leave their orders in [`take_effects`](Self::take_effects).
#[derive(Debug)]
pub(crate) struct Table<E: Entry> {
    pub(super) slots: HashMap<SlotId, Slot<E>>,
    pub(super) by_key: HashMap<E::Key, Vec<SlotId>>,
    pub(super) queue: VecDeque<SlotId>,
    pub(super) limits: Limits,
    closed: bool,
    names: u64,
    pub(super) out: Vec<Effect>,
}

impl<E: Entry> Table<E> {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            slots: HashMap::new(),
            by_key: HashMap::new(),
            queue: VecDeque::new(),
            limits,
            closed: false,
            names: 0,
            out: Vec::new(),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.out)
    }

    pub(crate) fn has_effects(&self) -> bool {
        !self.out.is_empty()
    }

    pub(crate) fn slot(&self, id: SlotId) -> Option<&Slot<E>> {
        self.slots.get(&id)
    }

    pub(crate) fn entry_mut(&mut self, id: SlotId) -> Option<&mut E> {
        Some(&mut self.slots.get_mut(&id)?.entry)
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = &Slot<E>> {
        self.slots.values()
    }

    pub(crate) fn is_live(&self, id: SlotId) -> bool {
        self.slots.get(&id).is_some_and(Slot::is_live)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.by_key.is_empty()
    }

    pub(crate) fn find(&self, key: &E::Key) -> Option<SlotId> {
        let ids = self.by_key.get(key)?;
        let current = |id: &&SlotId| self.slots.get(id).is_some_and(|s| s.retired().is_none());
        ids.iter().find(current).copied()
    }

    /// Adds a slot. A declared one starts at once; one on demand must be acquired next, or the next
    /// tick removes it.
    pub(crate) fn insert(&mut self, entry: E, settings: SlotSettings, now: Time) -> SlotId {
        self.names += 1;
        let id = SlotId(self.names);
        self.forget_one_too_many();
        let ids = self.by_key.entry(entry.key().clone()).or_default();
        ids.push(id);
        let mut slot = Slot::new(id, entry, settings, now);
        if self.closed {
            slot.retire(&EndReason::Shutdown, &mut self.out);
        }
        let settled = slot.wants_start() || self.closed;
        self.slots.insert(id, slot);
        if settled {
            self.reconcile(id, now);
        }
        id
    }

    pub(crate) fn lease(&mut self, id: SlotId, now: Time) -> Option<Generation> {
        if self.closed {
            return None;
        }
        self.slots.get_mut(&id)?.lease(now)
    }

    /// Leases the slot's process, now or when there is one: an effect answers.
    pub(crate) fn acquire(&mut self, id: SlotId, deadline: Time, now: Time) -> WaiterId {
        self.names += 1;
        let waiter = WaiterId(self.names);
        self.end_again(id);
        match self.slots.get_mut(&id) {
            Some(slot) if !self.closed => {
                slot.acquire(waiter, deadline, now, &mut self.out);
                self.reconcile(id, now);
            }
            _ => {
                let refusal = AcquireErrorKind::Closed;
                self.out.push(Effect::Refuse { waiter, refusal });
            }
        }
        waiter
    }

    pub(crate) fn cancel(&mut self, id: SlotId, waiter: WaiterId, now: Time) -> bool {
        let waited = self
            .slots
            .get_mut(&id)
            .is_some_and(|slot| slot.cancel(waiter, now));
        self.reconcile(id, now);
        waited
    }

    /// Takes a lease back. Returns when the slot's idle clock expires, if it runs.
    pub(crate) fn release(
        &mut self,
        id: SlotId,
        generation: Generation,
        now: Time,
    ) -> Option<Time> {
        let slot = self.slots.get_mut(&id)?;
        slot.release(generation, now, &mut self.out);
        // Another slot may wait for an idle one.
        if !self.queue.is_empty() {
            self.start_ready();
        }
        self.slots.get(&id)?.deadline()
    }

    pub(crate) fn started(&mut self, id: SlotId, generation: Generation, now: Time) {
        self.update(id, now, |slot, out| slot.started(generation, now, out));
    }

    pub(crate) fn died(&mut self, id: SlotId, generation: Generation, now: Time) {
        self.update(id, now, |slot, _| slot.died(generation, now));
    }

    pub(crate) fn ended(
        &mut self,
        id: SlotId,
        generation: Generation,
        proven: bool,
        entropy: u64,
        now: Time,
    ) {
        self.update(id, now, |slot, out| {
            slot.ended(generation, proven, entropy, now, out);
        });
    }

    pub(crate) fn retire(&mut self, id: SlotId, reason: &EndReason, now: Time) {
        self.update(id, now, |slot, out| slot.retire(reason, out));
    }

    pub(crate) fn reset(&mut self, id: SlotId, now: Time) {
        self.end_again(id);
        self.update(id, now, |slot, _| slot.reset());
    }

    fn update(
        &mut self,
        id: SlotId,
        now: Time,
        event: impl FnOnce(&mut Slot<E>, &mut Vec<Effect>),
    ) {
        if let Some(slot) = self.slots.get_mut(&id) {
            event(slot, &mut self.out);
        }
        self.reconcile(id, now);
    }

    /// Retries unproven ends of the slot and its predecessors now.
    pub(crate) fn end_again(&mut self, id: SlotId) {
        let slot = self.slots.get(&id);
        let ids = slot.and_then(|slot| self.by_key.get(slot.entry.key()));
        for id in ids.into_iter().flatten() {
            if let Some(slot) = self.slots.get_mut(id) {
                slot.end_again(&mut self.out);
            }
        }
    }

    pub(crate) fn configure(&mut self, id: SlotId, settings: SlotSettings) {
        if let Some(slot) = self.slots.get_mut(&id) {
            slot.configure(settings);
        }
    }

    pub(crate) fn close(&mut self, reason: &EndReason, now: Time) {
        self.closed = true;
        let ids: Vec<_> = self.slots.keys().copied().collect();
        for id in ids {
            self.update(id, now, |slot, out| {
                slot.retire(reason, out);
                slot.end_again(out);
            });
        }
    }

    pub(crate) fn tick(&mut self, now: Time) {
        let due = |slot: &Slot<E>| slot.deadline().is_some_and(|at| at <= now);
        let ids: Vec<_> = self
            .slots
            .values()
            .filter(|s| due(s))
            .map(|s| s.id)
            .collect();
        for id in ids {
            self.update(id, now, |slot, out| slot.tick(now, out));
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.slots.values().filter_map(Slot::deadline).min()
    }

    /// Queues the slot if it wants to start, removes it if it is void, and starts what can start.
    fn reconcile(&mut self, id: SlotId, now: Time) {
        let Some(slot) = self.slots.get_mut(&id) else {
            return;
        };
        if slot.wants_start() && !slot.queued && !self.closed {
            slot.queued = true;
            self.queue.push_back(id);
        } else if slot.is_forgettable(now) {
            self.remove(id);
        }
        self.start_ready();
    }

    pub(super) fn remove(&mut self, id: SlotId) {
        if let Some(slot) = self.slots.remove(&id)
            && let Some(ids) = self.by_key.get_mut(slot.entry.key())
        {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.by_key.remove(slot.entry.key());
            }
        }
    }

    fn forget_one_too_many(&mut self) {
        let remembered = |slot: &&Slot<E>| {
            let failed = matches!(slot.state(), ServerState::Backoff | ServerState::Exhausted);
            failed && slot.waiting() == 0 && slot.settings.demand == Demand::OnDemand
        };
        if self.slots.len() < REMEMBERED {
            return;
        }
        let failed = || self.slots.values().filter(remembered);
        if failed().count() >= REMEMBERED
            && let Some(oldest) = failed()
                .min_by_key(|slot| slot.last_used())
                .map(|slot| slot.id)
        {
            self.remove(oldest);
        }
    }
}
