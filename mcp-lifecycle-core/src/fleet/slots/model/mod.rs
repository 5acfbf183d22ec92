//! The model test: random interleavings against a simulated world.

mod check;
mod op;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use self::op::{Op, op};
use super::effect::*;
use super::settings::{Demand, Limits, SlotSettings};
use super::table::{Acquired, Table};
use crate::fleet::restart::RestartPolicy;
use crate::fleet::restart::Time;
use crate::terminate::report::EndReason;

/// A running server as the model sees it.
#[derive(Debug, Clone, Default)]
struct Server(Rc<Cell<(bool, bool)>>);

impl Liveness for Server {
    fn is_busy(&self) -> bool {
        self.0.get().0
    }
    fn is_dead(&self) -> bool {
        self.0.get().1
    }
}

fn end(generation: Generation, proven: bool, entropy: u64) -> End {
    End {
        generation,
        proven,
        entropy,
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

const MAX_LIVE: usize = 4;
const MAX_STARTING: usize = 2;

struct World {
    table: Table<u8, Server, ()>,
    now: Time,
    processes: BTreeMap<SlotId, Process>,
    waiters: BTreeMap<WaiterId, SlotId>,
    leases: Vec<(SlotId, Generation)>,
    entropy: u64,
}

fn settings(demand: Demand, exclusive: bool, beside: bool, key: u8) -> SlotSettings {
    SlotSettings {
        demand,
        exclusive,
        idle_ttl: key.is_multiple_of(2).then_some(Duration::from_secs(20)),
        restart: RestartPolicy::new().max_restarts(2),
        beside,
        server: Arc::from(format!("server-{}", key / 2)),
        max_of_server: (key == 1).then_some(1),
    }
}

fn insert(table: &mut Table<u8, Server, ()>, key: u8, settings: SlotSettings, now: Time) -> SlotId {
    table.insert(key, (), settings, now)
}

fn pick<T: Copy>(from: impl IntoIterator<Item = T>, nth: usize) -> Option<T> {
    let all: Vec<_> = from.into_iter().collect();
    (!all.is_empty()).then(|| all[nth % all.len()])
}

impl World {
    fn new() -> Self {
        Self {
            table: Table::new(Limits {
                max_live: MAX_LIVE,
                max_starting: MAX_STARTING,
            }),
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
                match self.table.acquire(id, deadline, self.now) {
                    Acquired::Granted(generation) => self.granted(id, generation),
                    Acquired::Waiting(waiter) => drop(self.waiters.insert(waiter, id)),
                    Acquired::Refused(_) => {}
                }
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
                        .map(|(key, _)| *key)
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
                    let (generation, server) = (process.generation, process.server.clone());
                    self.table.started(id, generation, server, self.now);
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
                    process.server.0.set((false, true));
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
                    self.processes[&id].server.0.set((busy, false));
                }
            }
            Op::Retire { nth } => {
                if let Some(id) = pick(
                    self.table
                        .slots()
                        .map(|(_, s)| s.id)
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

    fn end(&mut self, id: SlotId, proven: bool) {
        let generation = self.processes[&id].generation;
        self.entropy += 1;
        if proven {
            self.processes.remove(&id);
        } else {
            self.processes.get_mut(&id).unwrap().state = State::Stuck;
        }
        self.table
            .ended(id, end(generation, proven, self.entropy), self.now);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_interleaving_breaks_the_promises(ops in prop::collection::vec(op(), 1..200)) {
        let mut world = World::new();
        for op in ops {
            world.apply(op);
            world.obey();
            world.check();
        }
        world.table.close(&EndReason::Shutdown, world.now);
        world.obey();
        world.check();
        // Every end succeeds finally, some after failures.
        while let Some((&id, process)) = world.processes.iter().next() {
            match process.state {
                State::Stuck => world.apply(Op::Tick { seconds: 300 }),
                _ => world.end(id, true),
            }
            world.obey();
            world.check();
        }
        prop_assert!(world.table.is_empty(), "something is left: {:?}", world.table);
        prop_assert_eq!(world.table.next_deadline(), None);
    }

    #[test]
    fn whoever_waits_is_answered_when_every_start_succeeds(ops in prop::collection::vec(op(), 1..100)) {
        let mut world = World::new();
        for op in ops.into_iter().filter(|op| !matches!(op, Op::Shutdown)) {
            world.apply(op);
            world.obey();
        }
        // Leases are returned, starts succeed, ends are proven: no waiter is left.
        for _ in 0..1000 {
            if world.waiters.is_empty() {
                break;
            }
            let ops = [
                Op::StartSucceeds { nth: 0 },
                Op::Ended { nth: 0, proven: true },
                Op::Release { nth: 0, twice: false },
                Op::Busy { nth: 0, busy: false },
                Op::Tick { seconds: 5 },
            ];
            for op in ops {
                world.apply(op);
                world.obey();
                world.check();
            }
        }
        prop_assert!(world.waiters.is_empty(), "waits for ever: {:?}", world.waiters);
    }
}
