//! The processes of the model, and what they do of themselves.

use std::collections::BTreeMap;

use super::random::Random;
use crate::lineage::{Seen, Witness};
use crate::sys::Pid;

/// The first process of the machine; it reaps at once.
const INIT: u64 = 1;
/// Numbers are given out again: there are not many.
const PIDS: std::ops::Range<u32> = 2..24;
/// More are not there at one time, zombies included: there has to be a free number.
const CROWD: usize = 16;

#[derive(Debug, Clone)]
pub(super) struct Proc {
    pub(super) unique: u64,
    pub(super) started_by: u64,
    /// Who would reap it: who started it, or the first process.
    parent: u64,
    pub(super) is_zombie: bool,
    pub(super) is_stopped: bool,
    /// The truth: it descends from the server.
    pub(super) is_ours: bool,
    /// It is another user's: nobody can signal it.
    pub(super) is_anothers: bool,
    pub(super) mark: Witness,
    pub(super) is_readable: bool,
    pub(super) is_watched: bool,
}

/// What could be known of a process, by whoever asked everything that can be asked.
#[derive(Debug, Clone, Default)]
pub(super) struct Record {
    pub(super) started_by: u64,
    /// The first and the last whole look in which it was asked.
    pub(super) asked: Option<(u64, u64)>,
    /// The look in which it carried the mark, readable, and was still there after that.
    pub(super) vouched: Option<u64>,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) processes: BTreeMap<u32, Proc>,
    pub(super) records: BTreeMap<u64, Record>,
    /// The server, as its host knows it: nobody else reaps it.
    pub(super) server: u64,
    server_pid: u32,
    next_pid: u32,
    next_unique: u64,
    /// A watched process has forked.
    pub(super) has_news: bool,
    /// What has happened, for a report; not kept unless it is wanted.
    pub(super) trace: Option<Vec<String>>,
}

impl World {
    pub(super) fn new(random: &mut Random) -> Self {
        let mut world = Self {
            processes: BTreeMap::new(),
            records: BTreeMap::new(),
            server: 0,
            server_pid: 0,
            next_pid: PIDS.start,
            next_unique: INIT + 1,
            has_news: false,
            trace: None,
        };
        let host = world.start(INIT, Witness::Other, false);
        let host = world.processes[&host].unique;
        for _ in 0..random.below(3) {
            world.stranger(random);
        }
        let server = world.start(host, Witness::Ours, true);
        world.server_pid = server;
        world.server = world.processes[&server].unique;
        // Another server of the same host.
        world.start(host, Witness::Other, false);
        world
    }

    pub(super) fn note(&mut self, what: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(what());
        }
    }

    pub(super) fn server_seen(&self) -> Seen {
        let server = &self.processes[&self.server_pid];
        seen(self.server_pid, server)
    }

    /// A new process of this one's.
    fn start(&mut self, starter: u64, mark: Witness, is_ours: bool) -> u32 {
        let pid = self.take_pid();
        let unique = self.next_unique;
        self.next_unique += 1;
        let process = Proc {
            unique,
            started_by: starter,
            parent: starter,
            is_zombie: false,
            is_stopped: false,
            is_ours,
            is_anothers: false,
            mark,
            is_readable: true,
            is_watched: false,
        };
        let record = Record {
            started_by: starter,
            ..Record::default()
        };
        self.records.insert(unique, record);
        self.processes.insert(pid, process);
        pid
    }

    /// The next number that is free.
    fn take_pid(&mut self) -> u32 {
        loop {
            let pid = self.next_pid;
            let next = pid + 1;
            self.next_pid = if PIDS.contains(&next) {
                next
            } else {
                PIDS.start
            };
            if !self.processes.contains_key(&pid) {
                return pid;
            }
        }
    }

    /// Somebody whom an older process has started: it may have been given the mark, and wipes that before it forks.
    fn stranger(&mut self, random: &mut Random) {
        let mark = match random.below(3) {
            0 if self.server > 0 => Witness::Ours,
            _ => Witness::Other,
        };
        let pid = self.start(INIT, mark, false);
        if let Some(stranger) = self.processes.get_mut(&pid) {
            stranger.is_readable = random.percent(70);
        }
        self.note(|| format!("a stranger: {pid}"));
    }

    /// One thing happens.
    pub(super) fn live(&mut self, random: &mut Random) {
        let acting = self.processes.iter();
        let acting = acting.filter(|(_, one)| !one.is_zombie && !one.is_stopped && one.parent != 0);
        let acting: Vec<u32> = acting.map(|(pid, _)| *pid).collect();
        let pid = *random.pick(&acting);
        // The host of the server lives on.
        let is_host = pid == PIDS.start
            && self.processes[&pid].started_by == INIT
            && self.processes[&pid].unique == INIT + 1;
        match random.below(12) {
            0..=4 if self.processes.len() < CROWD => self.fork(pid, random),
            5 if self.processes.len() < CROWD => self.stranger(random),
            6 | 7 if !is_host => self.exit(pid),
            8 if !is_host => self.exec(pid, random),
            _ if !is_host => self.reap(pid),
            _ => {}
        }
    }

    fn fork(&mut self, pid: u32, random: &mut Random) {
        let parent = self.processes[&pid].clone();
        self.has_news |= parent.is_watched;
        let mark = match parent.is_ours {
            true => parent.mark,
            false => Witness::Other,
        };
        let child = self.start(parent.unique, mark, parent.is_ours);
        if let Some(child) = self.processes.get_mut(&child) {
            child.is_readable = parent.is_readable;
            // Set-uid programs, and what they start.
            child.is_anothers = parent.is_anothers || random.percent(2);
        }
        self.note(|| format!("{pid} forks {child}"));
    }

    fn exec(&mut self, pid: u32, random: &mut Random) {
        let Some(process) = self.processes.get_mut(&pid) else {
            return;
        };
        match random.percent(50) {
            true => process.mark = Witness::Other,
            false => process.is_readable = !process.is_readable,
        }
        let said = (process.mark, process.is_readable);
        self.note(|| format!("{pid} executes, {said:?}"));
    }

    /// It ends, and what follows from that without anybody's doing.
    pub(super) fn exit(&mut self, pid: u32) {
        let Some(process) = self
            .processes
            .get_mut(&pid)
            .filter(|process| !process.is_zombie)
        else {
            return;
        };
        process.is_zombie = true;
        process.is_watched = false;
        let unique = process.unique;
        for orphan in self
            .processes
            .values_mut()
            .filter(|orphan| orphan.parent == unique)
        {
            orphan.parent = INIT;
        }
        self.processes
            .retain(|_, process| !process.is_zombie || process.parent != INIT);
        self.note(|| format!("{pid} exits"));
    }

    /// It waits for one of its children.
    fn reap(&mut self, pid: u32) {
        let parent = self.processes[&pid].unique;
        let mut children = self.processes.iter();
        let zombie = children.find(|(_, child)| child.parent == parent && child.is_zombie);
        if let Some(zombie) = zombie.map(|(pid, _)| *pid) {
            self.processes.remove(&zombie);
            self.note(|| format!("{pid} reaps {zombie}"));
        }
    }

    /// The look from which on it could be known that this one is a member, whatever has become of it.
    pub(super) fn known_since(&self, unique: u64) -> Option<u64> {
        if unique == self.server {
            return Some(0);
        }
        let record = self.records.get(&unique)?;
        let linked = self.known_since(record.started_by).and_then(|since| {
            let (first, last) = record.asked?;
            (last >= since).then_some(first.max(since))
        });
        match (linked, record.vouched) {
            (Some(linked), Some(vouched)) => Some(linked.min(vouched)),
            (linked, vouched) => linked.or(vouched),
        }
    }

    /// Whether the next look would link this one: everybody above it was known, or is there.
    pub(super) fn is_linked(&self, process: &Proc) -> bool {
        if self.known_since(process.started_by).is_some() {
            return true;
        }
        let mut starters = self.processes.values();
        let starter = starters.find(|one| one.unique == process.started_by);
        starter.is_some_and(|starter| self.is_linked(starter))
    }
}

impl Proc {
    /// Who is its parent today.
    pub(super) fn parent(&self) -> u64 {
        self.parent
    }
}

pub(super) fn seen(pid: u32, process: &Proc) -> Seen {
    let Some(number) = Pid::new(pid.into()) else {
        unreachable!("there is no number below 2")
    };
    Seen {
        pid: number,
        unique: process.unique,
        started_by: process.started_by,
        // Nobody is in the group of another one.
        group: pid,
        is_zombie: process.is_zombie,
    }
}
