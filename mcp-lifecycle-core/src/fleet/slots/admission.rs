//! Chooses the slots to start and the slots to evict for them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::effect::{Entry, SlotId};
use super::settings::Demand;
use super::slot::Slot;
use super::table::Table;
use crate::fleet::{AcquireErrorKind, ServerState};
use crate::terminate::EndReason;

#[derive(Debug, Default, Clone, Copy)]
struct Count {
    live: usize,
    leaving: usize,
    /// Waiting for the end of a leaving one.
    promised: usize,
}

enum Room {
    Here,
    Soon,
    Never(AcquireErrorKind),
}

impl<E: Entry> Table<E> {
    pub(super) fn start_ready(&mut self) {
        if self.queue.is_empty() {
            return;
        }
        let mut all = Count::default();
        let mut of_server: HashMap<Arc<str>, Count> = HashMap::new();
        let mut starting = 0;
        for slot in self.slots.values() {
            let server = Arc::clone(slot.entry.server());
            let server = of_server.entry(server).or_default();
            for count in [&mut all, server] {
                count.live += usize::from(slot.is_live());
                count.leaving += usize::from(slot.state() == ServerState::Ending);
            }
            starting += usize::from(slot.state() == ServerState::Starting);
        }
        let closed = self.is_closed();
        let mut later = VecDeque::new();
        for id in std::mem::take(&mut self.queue) {
            let Some(slot) = self.slots.get_mut(&id) else {
                continue;
            };
            if !slot.wants_start() || closed {
                slot.queued = false;
                continue;
            }
            let server = Arc::clone(slot.entry.server());
            let server = of_server.entry(server).or_default();
            let room = match self.blocked_by_key(id) {
                Some(room) => room,
                None if starting >= self.limits.max_starting => Room::Soon,
                None => self.room(id, &mut all, server),
            };
            let Some(slot) = self.slots.get_mut(&id) else {
                continue;
            };
            match room {
                Room::Here => {
                    slot.queued = false;
                    slot.start(&mut self.out);
                    all.live += 1;
                    server.live += 1;
                    starting += 1;
                }
                Room::Never(refusal) if slot.settings.demand == Demand::OnDemand => {
                    slot.queued = false;
                    slot.refuse_all(&refusal, &mut self.out);
                    self.remove_if_void(id);
                }
                Room::Never(_) | Room::Soon => later.push_back(id),
            }
        }
        self.queue = later;
    }

    fn remove_if_void(&mut self, id: SlotId) {
        let void = |slot: &Slot<E>| slot.is_forgettable(slot.last_used());
        if self.slots.get(&id).is_some_and(void) {
            self.remove(id);
        }
    }

    fn blocked_by_key(&self, id: SlotId) -> Option<Room> {
        let slot = self.slots.get(&id)?;
        if slot.settings.beside {
            return None;
        }
        let others = self.by_key.get(slot.entry.key())?;
        let live = others
            .iter()
            .filter(|other| **other != id)
            .filter_map(|other| self.slots.get(other))
            .find(|other| other.is_live())?;
        Some(match live.state() {
            ServerState::Unproven => Room::Never(AcquireErrorKind::Unproven(live.last_error())),
            _ => Room::Soon,
        })
    }

    fn room(&mut self, id: SlotId, all: &mut Count, server: &mut Count) -> Room {
        let Some(slot) = self.slots.get(&id) else {
            return Room::Soon;
        };
        let name = Arc::clone(slot.entry.server());
        let on_demand = slot.settings.demand == Demand::OnDemand;
        let of_server = slot.settings.options.max_live.filter(|_| on_demand);
        let within = |slot: &Slot<E>| *slot.entry.server() == name;
        let mut soon = false;
        if let Some(limit) = of_server
            && server.live >= limit
        {
            if server.leaving <= server.promised && !self.evict(within) {
                return Room::Never(self.capacity(limit, Some(&name)));
            } else if server.leaving <= server.promised {
                all.leaving += 1;
            }
            server.promised += 1;
            soon = true;
        }
        let limit = self.limits.max_live;
        if all.live >= limit {
            if all.leaving <= all.promised {
                if !self.evict(|_| true) {
                    return Room::Never(self.capacity(limit, None));
                }
                all.leaving += 1;
            }
            all.promised += 1;
            soon = true;
        }
        if soon { Room::Soon } else { Room::Here }
    }

    fn evict(&mut self, within: impl Fn(&Slot<E>) -> bool) -> bool {
        let idle = self
            .slots
            .values_mut()
            .filter(|slot| slot.is_idle() && within(slot));
        let Some(oldest) = idle.min_by_key(|slot| (slot.last_used(), slot.id)) else {
            return false;
        };
        oldest.retire(&EndReason::Evicted, &mut self.out);
        true
    }

    fn capacity(&self, limit: usize, server: Option<&Arc<str>>) -> AcquireErrorKind {
        let counted = |slot: &&Slot<E>| {
            slot.is_live() && server.is_none_or(|server| slot.entry.server() == server)
        };
        let mut holders: Vec<_> = self.slots.values().filter(counted).collect();
        holders.sort_unstable_by_key(|slot| slot.id);
        AcquireErrorKind::Capacity {
            limit,
            of_server: server.is_some(),
            holders: holders.into_iter().map(Slot::holder).collect(),
        }
    }
}
