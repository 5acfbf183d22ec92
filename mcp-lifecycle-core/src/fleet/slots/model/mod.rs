//! The model test: random interleavings, and every short one, against a simulated world.

mod check;
mod op;
mod orders;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use self::op::{Op, op};
use super::effect::*;
use super::settings::{Demand, Limits, SlotSettings};
use super::table::Table;
use crate::fleet::engine::record::Failure;
use crate::fleet::restart::{RestartPolicy, Time};
use crate::fleet::{FleetOptions, Sharing};
use crate::terminate::report::EndReason;

/// A running server as the model sees it.
#[derive(Debug, Clone)]
struct Server {
    key: u8,
    name: Arc<str>,
    /// Whether it is busy, and whether it is dead.
    is: Rc<Cell<(bool, bool)>>,
}

impl Server {
    fn new(key: u8) -> Self {
        Self {
            key,
            name: Arc::from(format!("server-{}", key / 2)),
            is: Rc::default(),
        }
    }
}

impl Entry for Server {
    type Key = u8;
    fn key(&self) -> &u8 {
        &self.key
    }
    fn server(&self) -> &Arc<str> {
        &self.name
    }
    fn owner(&self) -> &Arc<str> {
        &self.name
    }
    fn is_busy(&self) -> bool {
        self.is.get().0
    }
    fn is_dead(&self) -> bool {
        self.is.get().1
    }
    fn failure(&self) -> Option<Failure> {
        None
    }
}

#[derive(Debug)]
struct Process {
    key: u8,
    generation: Generation,
    server: Server,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Starting,
    Running,
    /// Ordered to end, or dead.
    Ending,
    /// Its end failed and no retry was requested.
    Stuck,
}

const LIMITS: Limits = Limits {
    max_live: 4,
    max_starting: 2,
};

struct World {
    table: Table<Server>,
    limits: Limits,
    now: Time,
    processes: BTreeMap<SlotId, Process>,
    waiters: BTreeMap<WaiterId, SlotId>,
    leases: Vec<(SlotId, Generation)>,
    entropy: u64,
}

fn settings(demand: Demand, exclusive: bool, beside: bool, key: u8) -> SlotSettings {
    let sharing = match exclusive {
        true => Sharing::Exclusive,
        false => Sharing::Shared,
    };
    SlotSettings {
        demand,
        beside,
        options: FleetOptions::new()
            .sharing(sharing)
            .idle_ttl(key.is_multiple_of(2).then_some(Duration::from_secs(20)))
            .restart(RestartPolicy::new().max_restarts(2))
            .max_live((key == 1).then_some(1)),
    }
}

fn insert(table: &mut Table<Server>, key: u8, settings: SlotSettings, now: Time) -> SlotId {
    table.insert(Server::new(key), settings, now)
}

fn pick<T: Copy>(from: impl IntoIterator<Item = T>, nth: usize) -> Option<T> {
    let all: Vec<_> = from.into_iter().collect();
    (!all.is_empty()).then(|| all[nth % all.len()])
}

impl World {
    fn new(limits: Limits) -> Self {
        Self {
            table: Table::new(limits),
            limits,
            now: Duration::from_secs(1),
            processes: BTreeMap::new(),
            waiters: BTreeMap::new(),
            leases: Vec::new(),
            entropy: 0,
        }
    }

    fn in_state(&self, state: State, nth: usize) -> Option<SlotId> {
        pick(
            self.processes
                .iter()
                .filter(|(_, p)| p.state == state)
                .map(|(id, _)| *id),
            nth,
        )
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Acquire {
                key,
                exclusive,
                deadline,
            } => {
                let id = self.table.find(&key).unwrap_or_else(|| {
                    insert(
                        &mut self.table,
                        key,
                        settings(Demand::OnDemand, exclusive, false, key),
                        self.now,
                    )
                });
                let deadline = self.now + Duration::from_secs(deadline);
                let waiter = self.table.acquire(id, deadline, self.now);
                self.waiters.insert(waiter, id);
            }
            Op::Declare { key } if self.table.find(&key).is_none() => {
                insert(
                    &mut self.table,
                    key,
                    settings(Demand::Declared, false, false, key),
                    self.now,
                );
            }
            Op::Reconfigure { nth, beside } => {
                let Some(key) = pick(
                    self.table
                        .slots()
                        .map(|slot| slot.entry.key)
                        .collect::<BTreeSet<_>>(),
                    nth,
                ) else {
                    return;
                };
                if let Some(old) = self.table.find(&key) {
                    let demand = if key < 4 {
                        Demand::OnDemand
                    } else {
                        Demand::Declared
                    };
                    if !beside {
                        self.table.retire(old, &EndReason::ConfigChanged, self.now);
                    }
                    let settings = settings(demand, false, beside, key);
                    insert(&mut self.table, key, settings, self.now);
                }
            }
            Op::CancelWaiter { nth } => {
                if let Some(waiter) = pick(self.waiters.keys().copied(), nth) {
                    let slot = self.waiters.remove(&waiter).unwrap();
                    assert!(
                        self.table.cancel(slot, waiter, self.now),
                        "a waiter was lost"
                    );
                }
            }
            Op::Release { nth, twice } if !self.leases.is_empty() => {
                let (slot, generation) = self.leases.swap_remove(nth % self.leases.len());
                self.table.release(slot, generation, self.now);
                // A double return is the lease's concern; a return for an old process is the
                // table's.
                if twice
                    && self
                        .processes
                        .get(&slot)
                        .is_none_or(|p| p.generation != generation)
                {
                    self.table.release(slot, generation, self.now);
                }
            }
            Op::StartSucceeds { nth } => {
                if let Some(id) = self.in_state(State::Starting, nth) {
                    let process = self.processes.get_mut(&id).unwrap();
                    process.state = State::Running;
                    self.table.started(id, process.generation, self.now);
                }
            }
            Op::StartFails { nth, proven } => {
                if let Some(id) = self.in_state(State::Starting, nth) {
                    self.end(id, proven);
                }
            }
            Op::Crash { nth, noticed } => {
                if let Some(id) = self.in_state(State::Running, nth) {
                    let process = self.processes.get_mut(&id).unwrap();
                    process.server.is.set((false, true));
                    process.state = State::Ending;
                    let generation = process.generation;
                    if noticed {
                        self.table.died(id, generation, self.now);
                    }
                }
            }
            Op::Ended { nth, proven } => {
                if let Some(id) = self.in_state(State::Ending, nth) {
                    self.end(id, proven);
                }
            }
            Op::Busy { nth, busy } => {
                if let Some(id) = self.in_state(State::Running, nth) {
                    self.processes[&id].server.is.set((busy, false));
                }
            }
            Op::Retire { nth } => {
                if let Some(id) = pick(
                    self.table
                        .slots()
                        .map(|slot| slot.id)
                        .collect::<BTreeSet<_>>(),
                    nth,
                ) {
                    self.table.retire(id, &EndReason::ScopeEnded, self.now);
                }
            }
            Op::Tick { seconds } => {
                self.now += Duration::from_secs(seconds);
                self.table.tick(self.now);
            }
            Op::Shutdown => self.table.close(&EndReason::Shutdown, self.now),
            Op::Declare { .. } | Op::Release { .. } => {}
        }
    }

    fn step(&mut self, op: Op) {
        self.apply(op);
        self.obey();
        self.check();
    }

    /// Checks that a shutdown leaves nothing, once every end succeeds, some after failures.
    fn shut_down(&mut self) {
        self.step(Op::Shutdown);
        while let Some((&id, process)) = self.processes.iter().next() {
            match process.state {
                State::Stuck => self.apply(Op::Tick { seconds: 300 }),
                _ => self.end(id, true),
            }
            self.obey();
            self.check();
        }
        let table = &self.table;
        assert!(table.is_empty(), "something is left: {table:?}");
        assert_eq!(table.next_deadline(), None);
    }

    /// Checks that no waiter is left, once leases are returned, starts succeed and ends are proven.
    fn answer_all(&mut self) {
        for _ in 0..1000 {
            if self.waiters.is_empty() {
                return;
            }
            let ops = [
                Op::StartSucceeds { nth: 0 },
                Op::Ended {
                    nth: 0,
                    proven: true,
                },
                Op::Release {
                    nth: 0,
                    twice: false,
                },
                Op::Busy {
                    nth: 0,
                    busy: false,
                },
                Op::Tick { seconds: 5 },
            ];
            ops.into_iter().for_each(|op| self.step(op));
        }
        panic!("waits for ever: {:?}", self.waiters);
    }

    fn end(&mut self, id: SlotId, proven: bool) {
        let generation = self.processes[&id].generation;
        self.entropy += 1;
        if proven {
            self.processes.remove(&id);
        } else {
            self.processes.get_mut(&id).unwrap().state = State::Stuck;
        }
        self.table
            .ended(id, generation, proven, self.entropy, self.now);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_interleaving_breaks_the_promises(ops in prop::collection::vec(op(), 1..200)) {
        let mut world = World::new(LIMITS);
        for op in ops {
            world.apply(op);
            world.obey();
            world.check();
        }
        world.shut_down();
    }

    #[test]
    fn whoever_waits_is_answered_when_every_start_succeeds(ops in prop::collection::vec(op(), 1..100)) {
        let mut world = World::new(LIMITS);
        for op in ops.into_iter().filter(|op| !matches!(op, Op::Shutdown)) {
            world.apply(op);
            world.obey();
        }
        world.answer_all();
    }
}
