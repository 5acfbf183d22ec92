//! One search: looks, holds whoever is to end, looks again, and ends it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use mcp_lifecycle_core::launch::{ReapReport, Remnant, UnknownRemnant};

use super::hosts::{self, State};
use super::kin::{self, Fate, Judge, Sighting, judge_all};
use super::{Fact, Machine, Searcher};
use crate::identity::HostId;
use crate::lineage::graph::LOOKS;
use crate::lineage::hunt::{Hold, hold};
use crate::lineage::{Order, Sent, rules};
use crate::orphans::verdict::Mark;
use crate::sys::Pid;

/// A look that finds nobody may have been between a parent and its child: this many in a row are believed.
const CLEAN_LOOKS: usize = 2;
/// So many looks in a row that show nobody new have to do, whole or not.
const FRUITLESS: usize = 6;
/// So often it is begun anew when somebody was ended.
const ROUNDS: usize = 64;

/// The decisions of a search, so that a wrong one can be put in its place by a test.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    pub(super) hunt: rules::Rules,
    pub(super) state: fn(&HostId, &io::Result<Option<Fact>>, u64) -> State,
    pub(super) judge: Judge,
    /// Whether somebody who is held may go on, by what the last look has decided about it.
    pub(super) is_let_go: fn(Option<&Fate>) -> bool,
}

pub(super) const RULES: Rules = Rules {
    hunt: rules::RULES,
    state: hosts::state,
    judge: kin::judge,
    is_let_go: |fate| fate.is_some_and(|fate| *fate != Fate::End),
};

pub(super) struct Search<'a, M> {
    machine: &'a mut M,
    searcher: &'a Searcher<'a>,
    rules: Rules,
    /// Those that were to end, and whether they have.
    tried: BTreeMap<u64, (Remnant, bool)>,
}

/// What a look has shown.
#[derive(Default)]
struct Look {
    sightings: BTreeMap<u64, Sighting>,
    fates: BTreeMap<u64, Fate>,
    is_whole: bool,
}

impl Look {
    /// With what a later one has shown, which may have missed somebody.
    fn with(mut self, later: Self) -> Self {
        self.sightings.extend(later.sightings);
        self.fates.extend(later.fates);
        self
    }
}

/// Whom a search holds, by the last of its looks.
#[derive(Default)]
struct Held {
    held: BTreeMap<u64, Fact>,
    last: Look,
    /// Nobody can have been missed.
    is_settled: bool,
}

impl<'a, M: Machine> Search<'a, M> {
    pub(super) fn new(machine: &'a mut M, searcher: &'a Searcher<'a>, rules: Rules) -> Self {
        Self {
            machine,
            searcher,
            rules,
            tried: BTreeMap::new(),
        }
    }

    pub(super) fn run(mut self) -> io::Result<ReapReport> {
        let mut rounds = 0;
        loop {
            let held = match self.hold_all() {
                Ok(held) => held,
                Err(error) if self.tried.is_empty() => return Err(error),
                // What was ended before is told all the same.
                Err(_) => return Ok(self.report(&Held::default())),
            };
            rounds += 1;
            let killed = self.kill(&held);
            self.wait_for(killed);
            if held.held.is_empty() || rounds >= ROUNDS || self.machine.is_late() {
                return Ok(self.report(&held));
            }
        }
    }

    /// Holds whoever is to end, until looks find no more. A look that has found it held decides about each.
    fn hold_all(&mut self) -> io::Result<Held> {
        let mut held = BTreeMap::new();
        let (mut looks, mut clean, mut fruitless) = (0, 0, 0);
        let mut last = Look::default();
        let mut confirmed = BTreeSet::new();
        loop {
            let look = match self.look() {
                Ok(look) => look,
                Err(error) => {
                    held.values().for_each(|one| self.let_go(one));
                    return Err(error);
                }
            };
            held.retain(|unique, one| {
                let is_let_go = (self.rules.is_let_go)(look.fates.get(unique));
                if is_let_go {
                    self.let_go(one);
                }
                !is_let_go
            });
            let to_end = |unique: &&u64| look.fates.get(*unique) == Some(&Fate::End);
            confirmed.extend(held.keys().filter(to_end).copied());
            let new = self.new_ones(&look, &held);
            looks += 1;
            clean = match (self.rules.hunt.is_settled)(new.len(), look.is_whole) {
                true => clean + 1,
                false => 0,
            };
            fruitless = match new.is_empty() {
                true => fruitless + 1,
                false => 0,
            };
            last = match look.is_whole {
                true => look,
                false => last.with(look),
            };
            let is_settled = clean >= CLEAN_LOOKS;
            let is_enough = fruitless >= FRUITLESS || looks >= LOOKS || self.machine.is_late();
            if is_settled || is_enough {
                held.retain(|unique, one| {
                    let is_confirmed = confirmed.contains(unique);
                    if !is_confirmed {
                        self.let_go(one);
                    }
                    is_confirmed
                });
                return Ok(Held {
                    held,
                    last,
                    is_settled,
                });
            }
            for one in new {
                match hold(&self.rules.hunt, self.machine, &one.seen) {
                    Hold::Held => drop(held.insert(one.seen.unique, one)),
                    Hold::Gone => {}
                    Hold::Refused => self.note(&one),
                }
            }
        }
    }

    /// Those that are to end, and neither held nor tried.
    fn new_ones(&self, look: &Look, held: &BTreeMap<u64, Fact>) -> Vec<Fact> {
        let to_end = look.fates.iter().filter(|(_, fate)| **fate == Fate::End);
        let to_end = to_end.filter(|(unique, _)| !held.contains_key(*unique));
        let to_end = to_end.filter(|(unique, _)| !self.tried.contains_key(*unique));
        let facts = to_end.filter_map(|(unique, _)| look.sightings.get(unique));
        facts.map(|sighting| sighting.fact.clone()).collect()
    }

    fn let_go(&mut self, one: &Fact) {
        let now = self.machine.ask(one.seen.pid).ok().flatten();
        if (self.rules.hunt.is_same)(&one.seen, now.as_ref()) {
            self.machine.send(one.seen.pid, Order::Continue);
        }
    }

    fn kill(&mut self, held: &Held) -> Vec<Fact> {
        let mut killed = Vec::new();
        for one in held.held.values() {
            match hold(&self.rules.hunt, self.machine, &one.seen) {
                Hold::Held => {
                    self.note(one);
                    if self.machine.send(one.seen.pid, Order::Kill) == Sent::Given {
                        killed.push(one.clone());
                    }
                }
                Hold::Gone => {}
                Hold::Refused => self.note(one),
            }
        }
        killed
    }

    /// It is to end, and has not yet.
    fn note(&mut self, one: &Fact) {
        self.tried.insert(one.seen.unique, (one.remnant(), false));
    }

    /// Waits for those who were killed, while there is time.
    fn wait_for(&mut self, mut killed: Vec<Fact>) {
        loop {
            killed.retain(|one| {
                let now = self.machine.ask(one.seen.pid);
                let lives = now.map_or(true, |now| {
                    (self.rules.hunt.is_same)(&one.seen, now.as_ref())
                });
                if let Some((_, has_ended)) = self.tried.get_mut(&one.seen.unique) {
                    *has_ended = !lives;
                }
                lives
            });
            if killed.is_empty() || self.machine.is_late() {
                return;
            }
            self.machine.pause();
        }
    }

    fn look(&mut self) -> io::Result<Look> {
        let listing = self.machine.list()?;
        let mut is_whole = listing.is_whole;
        let mut sightings = BTreeMap::new();
        for pid in listing.pids {
            match self.sight(pid) {
                Ok(Some(sighting)) => {
                    sightings.insert(sighting.fact.seen.unique, sighting);
                }
                Ok(None) => {}
                Err(_) => is_whole = false,
            }
        }
        let states = self.states(&sightings);
        let fates = judge_all(&sightings, &states, self.searcher, self.rules.judge);
        Ok(Look {
            sightings,
            fates,
            is_whole,
        })
    }

    fn sight(&mut self, pid: Pid) -> io::Result<Option<Sighting>> {
        let Some(fact) = self.machine.fact(pid)? else {
            return Ok(None);
        };
        if !fact.is_own || fact.seen.is_zombie {
            return Ok(Some(Sighting { fact, said: None }));
        }
        let said = self.machine.read(pid);
        // What was said may be another one's, who has the number now.
        let after = self.machine.ask(pid)?;
        let is_its_own = (self.rules.hunt.is_same)(&fact.seen, after.as_ref());
        Ok(is_its_own.then_some(Sighting {
            fact,
            said: Some(said),
        }))
    }

    /// The states of the hosts that marks name. Asked after the marks were read: one that is dead then stays so.
    fn states(&mut self, sightings: &BTreeMap<u64, Sighting>) -> BTreeMap<HostId, State> {
        let mut oldest = BTreeMap::new();
        for (unique, sighting) in sightings {
            let mark = sighting.said.as_ref().map(|said| &said.mark);
            if let Some(Mark::Cookie(cookie)) = mark
                && cookie.host().boot_id() == self.searcher.boot_id
                && Some(cookie.host()) != self.searcher.this
            {
                // In the order of ids: the first is the oldest.
                oldest.entry(cookie.host().clone()).or_insert(*unique);
            }
        }
        let state = |(host, oldest): (HostId, u64)| {
            let state = (self.rules.state)(&host, &self.holder(&host), oldest);
            (host, state)
        };
        oldest.into_iter().map(state).collect()
    }

    /// Who has the number of a host now. That there is nobody is believed when it is said twice.
    fn holder(&mut self, host: &HostId) -> io::Result<Option<Fact>> {
        let Some(pid) = Pid::new(host.pid().into()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        match self.machine.fact(pid)? {
            None => self.machine.fact(pid),
            holder => Ok(holder),
        }
    }

    fn report(&self, held: &Held) -> ReapReport {
        let mut report = ReapReport::new();
        for (remnant, has_ended) in self.tried.values() {
            match has_ended {
                true => report.ended.push(remnant.clone()),
                false => report.failed.push(remnant.clone()),
            }
        }
        for (unique, fate) in &held.last.fates {
            let sighting = held.last.sightings.get(unique);
            let Some(sighting) = sighting.filter(|_| !self.tried.contains_key(unique)) else {
                continue;
            };
            let remnant = sighting.fact.remnant();
            match fate {
                Fate::Spare => report.spared.push(remnant),
                Fate::Unknown(why) => {
                    let unknown = UnknownRemnant::new(remnant, why.as_str());
                    report.unknown.push(unknown);
                }
                Fate::End if !held.held.contains_key(unique) => {
                    let why = "it is to end, and was found too late in this search";
                    report.unknown.push(UnknownRemnant::new(remnant, why));
                }
                Fate::End | Fate::Pass => {}
            }
        }
        if !held.is_settled {
            let all = Remnant::record("list of processes", "of this machine");
            let why = "not everybody on it could be looked at, or it did not come to rest";
            report.unknown.push(UnknownRemnant::new(all, why));
        }
        report
    }
}
