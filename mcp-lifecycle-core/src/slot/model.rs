//! The model test: random interleavings against a world that obeys the orders.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::RestartPolicy;

/// A running server as the model sees it.
#[derive(Debug, Clone, Default)]
struct Server(Rc<Cell<(bool, bool)>>);

impl Gauge for Server {
    fn is_busy(&self) -> bool {
        self.0.get().0
    }
    fn is_dead(&self) -> bool {
        self.0.get().1
    }
}

#[derive(Debug, Clone)]
enum Op {
    Acquire {
        key: u8,
        exclusive: bool,
        patience: u64,
    },
    Declare {
        key: u8,
    },
    Reconfigure {
        nth: usize,
    },
    CancelWaiter {
        nth: usize,
    },
    Release {
        nth: usize,
        twice: bool,
    },
    StartSucceeds {
        nth: usize,
    },
    StartFails {
        nth: usize,
        proven: bool,
    },
    Crash {
        nth: usize,
        noticed: bool,
    },
    Ended {
        nth: usize,
        proven: bool,
    },
    Busy {
        nth: usize,
        busy: bool,
    },
    Retire {
        nth: usize,
    },
    Tick {
        seconds: u64,
    },
    Shutdown,
}

fn op() -> impl Strategy<Value = Op> {
    let nth = any::<usize>();
    prop_oneof![
        8 => (0u8..4, any::<bool>(), 0u64..60).prop_map(|(key, exclusive, patience)| Op::Acquire { key, exclusive, patience }),
        2 => (4u8..6).prop_map(|key| Op::Declare { key }),
        1 => nth.prop_map(|nth| Op::Reconfigure { nth }),
        2 => nth.prop_map(|nth| Op::CancelWaiter { nth }),
        6 => (nth, any::<bool>()).prop_map(|(nth, twice)| Op::Release { nth, twice }),
        8 => nth.prop_map(|nth| Op::StartSucceeds { nth }),
        2 => (nth, any::<bool>()).prop_map(|(nth, proven)| Op::StartFails { nth, proven }),
        3 => (nth, any::<bool>()).prop_map(|(nth, noticed)| Op::Crash { nth, noticed }),
        6 => (nth, prop::bool::weighted(0.8)).prop_map(|(nth, proven)| Op::Ended { nth, proven }),
        1 => (nth, any::<bool>()).prop_map(|(nth, busy)| Op::Busy { nth, busy }),
        1 => nth.prop_map(|nth| Op::Retire { nth }),
        4 => (0u64..40).prop_map(|seconds| Op::Tick { seconds }),
        1 => Just(Op::Shutdown),
    ]
}

fn end(generation: Generation, proven: bool, entropy: u64) -> End {
    End {
        generation,
        proven,
        entropy,
    }
}

/// A process of the world.
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
    /// An end failed, and nobody has asked for another.
    Stuck,
}

const MAX_LIVE: usize = 4;
const MAX_STARTING: usize = 2;

struct World {
    table: Table<u8, Server>,
    now: Time,
    processes: BTreeMap<SlotId, Process>,
    waiters: BTreeMap<WaiterId, SlotId>,
    leases: Vec<(SlotId, Generation)>,
    entropy: u64,
}

fn settings(demand: Demand, exclusive: bool, key: u8) -> SlotSettings {
    SlotSettings {
        demand,
        exclusive,
        idle_ttl: key.is_multiple_of(2).then_some(Duration::from_secs(20)),
        restart: RestartPolicy::new().max_restarts(2),
        beside: false,
        server: Arc::from(format!("server-{}", key / 2)),
        max_of_server: (key == 1).then_some(1),
    }
}

fn insert(table: &mut Table<u8, Server>, key: u8, settings: SlotSettings, now: Time) -> SlotId {
    let id = table.reserve();
    table.insert(id, key, settings, now);
    id
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
                patience,
            } => {
                let id = self.table.find(&key).unwrap_or_else(|| {
                    insert(
                        &mut self.table,
                        key,
                        settings(Demand::OnDemand, exclusive, key),
                        self.now,
                    )
                });
                let patience = self.now + Duration::from_secs(patience);
                match self.table.acquire(id, patience, self.now) {
                    Acquired::Granted(generation) => self.granted(id, generation),
                    Acquired::Waiting(waiter) => drop(self.waiters.insert(waiter, id)),
                    Acquired::Refused(_) => {}
                }
            }
            Op::Declare { key } if self.table.find(&key).is_none() => {
                insert(
                    &mut self.table,
                    key,
                    settings(Demand::Declared, false, key),
                    self.now,
                );
            }
            Op::Reconfigure { nth } => {
                // Another process for the same key, after the old one.
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
                    self.table.retire(old, &EndReason::ConfigChanged, self.now);
                    insert(&mut self.table, key, settings(demand, false, key), self.now);
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
                // A second return is the lease's business; one of an old process is the table's.
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

    fn granted(&mut self, slot: SlotId, generation: Generation) {
        let process = self.processes.get(&slot).expect("leased without a process");
        assert_eq!(process.generation, generation, "leased an old process");
        assert!(!process.server.is_dead(), "leased a dead server");
        assert_eq!(
            process.state,
            State::Running,
            "leased a server that is not ready"
        );
        self.leases.push((slot, generation));
    }

    fn obey(&mut self) {
        for effect in self.table.take_effects() {
            match effect {
                Effect::Start { slot, generation } => {
                    assert!(!self.table.is_closed(), "started after the shutdown");
                    let key = *self.table.key(slot).expect("started without a slot");
                    let rival = self.processes.values().find(|p| p.key == key);
                    assert!(
                        rival.is_none(),
                        "two live processes of key {key}: {rival:?}"
                    );
                    let server = Server::default();
                    let state = State::Starting;
                    self.processes.insert(
                        slot,
                        Process {
                            key,
                            generation,
                            server,
                            state,
                        },
                    );
                }
                Effect::End { slot, reason } => {
                    let process = self
                        .processes
                        .get_mut(&slot)
                        .expect("ended without a process");
                    if matches!(reason, EndReason::Evicted | EndReason::Idle) {
                        assert!(!process.server.is_busy(), "a busy server was {reason}");
                        let held = |l: &&(SlotId, Generation)| **l == (slot, process.generation);
                        assert_eq!(
                            self.leases.iter().filter(held).count(),
                            0,
                            "a lease was {reason}"
                        );
                    }
                    process.state = State::Ending;
                }
                Effect::EndAgain { slot } => {
                    let process = self
                        .processes
                        .get_mut(&slot)
                        .expect("ended without a process");
                    assert_eq!(process.state, State::Stuck);
                    process.state = State::Ending;
                }
                Effect::Grant {
                    waiter,
                    slot,
                    generation,
                } => {
                    assert_eq!(
                        self.waiters.remove(&waiter),
                        Some(slot),
                        "granted to nobody"
                    );
                    self.granted(slot, generation);
                }
                Effect::Refuse { waiter, .. } => {
                    assert!(self.waiters.remove(&waiter).is_some(), "refused nobody");
                }
                Effect::Removed { slot } => {
                    assert!(
                        !self.processes.contains_key(&slot),
                        "a process lost its owner"
                    );
                }
            }
        }
    }

    fn check(&self) {
        assert!(self.processes.len() <= MAX_LIVE, "over the limit");
        let starting = self
            .processes
            .values()
            .filter(|p| p.state == State::Starting)
            .count();
        assert!(starting <= MAX_STARTING, "over the limit of starts");
        for (id, process) in &self.processes {
            let slot = self
                .table
                .slot(*id)
                .expect("a live process without an owner");
            assert!(slot.is_live() && slot.generation() == process.generation);
            let held = self
                .leases
                .iter()
                .filter(|l| **l == (*id, process.generation))
                .count();
            assert_eq!(slot.leases(), held, "a lease was lost");
        }
        let live = self
            .table
            .slots()
            .filter(|(_, slot)| slot.is_live())
            .count();
        assert_eq!(live, self.processes.len(), "a slot lives without a process");
        let waiting: usize = self.table.slots().map(|(_, slot)| slot.waiting()).sum();
        assert_eq!(waiting, self.waiters.len(), "a waiter was lost");
        if self.table.is_closed() {
            assert_eq!(waiting, 0, "somebody waits for a table that is shut down");
        }
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
        // Every end succeeds at last, some after having failed.
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
        // Leases come back, starts succeed, ends are proven: nobody is left waiting.
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
