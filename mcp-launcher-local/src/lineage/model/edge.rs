//! The system calls of the model. Before each of them the world may go on.

use std::collections::BTreeSet;
use std::io;

use super::random::Random;
use super::world::{World, seen};
use crate::lineage::{Listing, Order, Processes, Seen, Sent, System, Witness};
use crate::sys::Pid;

/// How the system is asked, so that a wrong way can be put in its place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ways {
    /// `arg = 1`.
    pub(super) asks_zombies: bool,
    /// By the id that stays, and not by the parent of today.
    pub(super) links_stay: bool,
    pub(super) stops: bool,
    pub(super) continues: bool,
    /// A list that may not have held all is said to be one.
    pub(super) owns_up: bool,
}

impl Default for Ways {
    fn default() -> Self {
        Self {
            asks_zombies: true,
            links_stay: true,
            stops: true,
            continues: true,
            owns_up: true,
        }
    }
}

pub(super) struct Edge<'a> {
    pub(super) world: &'a mut World,
    pub(super) random: &'a mut Random,
    ways: Ways,
    /// Nothing happens between our calls.
    pub(super) is_quiet: bool,
    look: u64,
    /// This look's list holds all.
    is_whole: bool,
    truncated: u32,
    /// Those of the list whom this look has not asked yet: what is asked later is asked for another reason.
    to_ask: BTreeSet<Pid>,
    /// Whoever was asked for its mark last, and carried it.
    carrier: Option<u64>,
    /// Nobody has been killed since the end was begun.
    is_first_kill: bool,
    wrong: Option<String>,
}

impl<'a> Edge<'a> {
    pub(super) fn new(world: &'a mut World, random: &'a mut Random, ways: Ways) -> Self {
        Self {
            world,
            random,
            ways,
            is_quiet: false,
            look: 0,
            is_whole: true,
            truncated: 0,
            to_ask: BTreeSet::new(),
            carrier: None,
            is_first_kill: true,
            wrong: None,
        }
    }

    pub(super) fn begin_end(&mut self) {
        self.is_first_kill = true;
    }

    /// Says what was done wrong so far.
    pub(super) fn verdict(&mut self) -> Result<(), String> {
        if let Some(wrong) = self.wrong.take() {
            return Err(wrong);
        }
        let mut stopped = self.world.processes.iter();
        if let Some((pid, _)) = stopped.find(|(_, one)| one.is_stopped && !one.is_ours) {
            return Err(format!("{pid} is a stranger, and stays stopped"));
        }
        Ok(())
    }

    fn go_on(&mut self) {
        if self.is_quiet {
            return;
        }
        // Seldom, so that a schedule has an end; now and then long enough for a number to be given out again.
        let steps = match self.random.below(200) {
            0 => self.random.below(60),
            1..=14 => 1 + self.random.below(3),
            _ => 0,
        };
        for _ in 0..steps {
            self.world.live(self.random);
        }
    }

    fn accuse(&mut self, wrong: String) {
        self.wrong.get_or_insert(wrong);
    }

    /// Before anybody is killed, nobody runs who would be found by looking.
    fn check_held(&mut self) {
        if !std::mem::take(&mut self.is_first_kill) {
            return;
        }
        let running = self.world.processes.iter();
        let mut running = running.filter(|(_, one)| {
            one.is_ours && !one.is_zombie && !one.is_stopped && !one.is_anothers
        });
        let missed = running
            .find(|(_, one)| self.world.is_linked(one))
            .map(|(pid, _)| *pid);
        if let Some(pid) = missed {
            self.accuse(format!("{pid} runs while others are killed"));
        }
    }
}

impl Processes for Edge<'_> {
    fn list(&mut self) -> io::Result<Listing> {
        self.go_on();
        self.look += 1;
        let look = self.look;
        let mut pids: Vec<Pid> = self
            .world
            .processes
            .iter()
            .map(|(pid, one)| seen(*pid, one).pid)
            .collect();
        self.is_whole = self.is_quiet || self.truncated >= 2 || !self.random.percent(15);
        if self.is_whole {
            self.truncated = 0;
        } else {
            self.truncated += 1;
            let keep = self.random.below(pids.len() as u64) as usize;
            pids.truncate(keep);
        }
        self.to_ask = pids.iter().copied().collect();
        self.world
            .note(|| format!("look {look}: {} processes", pids.len()));
        Ok(Listing {
            pids,
            is_whole: self.is_whole || !self.ways.owns_up,
        })
    }

    fn ask(&mut self, pid: Pid) -> io::Result<Option<Seen>> {
        self.go_on();
        let is_look = self.to_ask.remove(&pid) && self.is_whole;
        let look = self.look;
        let carrier = self.carrier.take();
        let Some(process) = self.world.processes.get(&pid.as_u32()) else {
            return Ok(None);
        };
        let mut said = seen(pid.as_u32(), process);
        if let Some(record) = self.world.records.get_mut(&said.unique) {
            if is_look {
                record.asked = Some((record.asked.map_or(look, |(first, _)| first), look));
            }
            if carrier == Some(said.unique) && !said.is_zombie {
                record.vouched.get_or_insert(look);
            }
        }
        if said.is_zombie && !self.ways.asks_zombies {
            return Ok(None);
        }
        if !self.ways.links_stay {
            said.started_by = process.parent();
        }
        Ok(Some(said))
    }

    fn send(&mut self, pid: Pid, order: Order) -> Sent {
        self.go_on();
        let ways = self.ways;
        self.world.note(|| format!("{order:?} to {}", pid.as_u32()));
        let Some(process) = self.world.processes.get_mut(&pid.as_u32()) else {
            return Sent::Nobody;
        };
        if process.is_zombie {
            return Sent::Given;
        }
        if process.is_anothers {
            return Sent::Refused;
        }
        let is_ours = process.is_ours;
        match order {
            Order::Stop => process.is_stopped |= ways.stops,
            Order::Continue => process.is_stopped &= !ways.continues,
            Order::Terminate | Order::Kill if !is_ours => {
                self.accuse(format!("{order:?} to {}, a stranger", pid.as_u32()))
            }
            Order::Terminate => {}
            Order::Kill => {
                self.check_held();
                self.world.exit(pid.as_u32());
            }
        }
        Sent::Given
    }
}

impl System for Edge<'_> {
    fn witness(&mut self, pid: Pid) -> Witness {
        self.go_on();
        let Some(process) = self.world.processes.get(&pid.as_u32()) else {
            return Witness::Hidden;
        };
        if process.is_zombie || !process.is_readable {
            return Witness::Hidden;
        }
        let is_carrier = process.is_ours && process.mark == Witness::Ours;
        self.carrier = is_carrier.then_some(process.unique);
        process.mark
    }

    fn watch(&mut self, pid: Pid) {
        self.go_on();
        let process = self.world.processes.get_mut(&pid.as_u32());
        if let Some(process) = process.filter(|process| !process.is_zombie) {
            process.is_watched = true;
        }
    }

    fn unwatch(&mut self, pid: Pid) {
        self.go_on();
        if let Some(process) = self.world.processes.get_mut(&pid.as_u32()) {
            process.is_watched = false;
        }
    }
}
