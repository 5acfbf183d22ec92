//! Carries out the table's orders and checks invariants.

use super::*;

impl World {
    /// Checks that the lease is of a running process.
    pub(super) fn granted(&mut self, slot: SlotId, generation: Generation) {
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

    /// Carries out the table's orders and checks that they are allowed.
    pub(super) fn obey(&mut self) {
        for effect in self.table.take_effects() {
            match effect {
                Effect::Start { slot, generation } => {
                    assert!(!self.table.is_closed(), "started after the shutdown");
                    let started = self.table.slot(slot).expect("started without a slot");
                    let (key, beside) = (started.entry.key, started.settings.beside);
                    let rival = self.processes.values().find(|p| p.key == key);
                    assert!(
                        rival.is_none() || beside,
                        "two live processes of key {key}: {rival:?}"
                    );
                    let server = started.entry.clone();
                    server.is.set((false, false));
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
            }
        }
    }

    /// Checks the invariants that always hold.
    pub(super) fn check(&self) {
        assert!(
            self.processes.len() <= self.limits.max_live,
            "over the limit"
        );
        let starting = self
            .processes
            .values()
            .filter(|p| p.state == State::Starting)
            .count();
        assert!(
            starting <= self.limits.max_starting,
            "over the limit of starts"
        );
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
        let live = self.table.slots().filter(|slot| slot.is_live()).count();
        assert_eq!(live, self.processes.len(), "a slot lives without a process");
        let waiting: usize = self.table.slots().map(|slot| slot.waiting()).sum();
        assert_eq!(waiting, self.waiters.len(), "a waiter was lost");
        if self.table.is_closed() {
            assert_eq!(waiting, 0, "somebody waits for a table that is shut down");
        }
    }
}
