//! The processes of the model, and what they do of themselves.

use std::collections::BTreeMap;

use crate::identity::HostId;
use crate::lineage::model::random::Random;

pub(super) const BOOT: &str = "01234567-89ab-cdef-0123-456789abcdef";
/// The first process of the machine; it reaps at once.
pub(super) const INIT: u64 = 1;
/// Numbers are given out again: there are not many.
const PIDS: std::ops::Range<u32> = 2..30;
/// More are not there at one time, zombies included: there has to be a free number.
const CROWD: usize = 20;

/// What the environment of a process says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Label {
    None,
    /// The server of this host, by its place among all.
    Of(usize),
    /// No identity.
    Garbage,
    /// The number of a host that is dead, in another boot.
    OtherBoot(usize),
}

#[derive(Debug, Clone)]
pub(super) struct Proc {
    pub(super) unique: u64,
    pub(super) started_by: u64,
    /// Who would reap it: who started it, or the first process.
    pub(super) parent: u64,
    pub(super) start: u64,
    pub(super) label: Label,
    pub(super) is_readable: bool,
    pub(super) is_own: bool,
    pub(super) is_zombie: bool,
    pub(super) is_stopped: bool,
    /// Nothing ends it.
    pub(super) is_stuck: bool,
    pub(super) is_watcher: bool,
    /// The truth: the host whose server it descends from.
    pub(super) owner: Option<usize>,
    /// The truth: it has launched servers, as this host.
    pub(super) host: Option<usize>,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) processes: BTreeMap<u32, Proc>,
    /// All that have ever been, with their ids.
    pub(super) hosts: Vec<(HostId, u64)>,
    pub(super) searcher: u32,
    next_pid: u32,
    next_unique: u64,
    clock: u64,
    /// What has happened, for a report; not kept unless it is wanted.
    pub(super) trace: Option<Vec<String>>,
}

impl World {
    pub(super) fn new(random: &mut Random) -> Self {
        let mut world = Self {
            processes: BTreeMap::new(),
            hosts: Vec::new(),
            searcher: 0,
            next_pid: PIDS.start,
            next_unique: INIT + 1,
            clock: 1000,
            trace: None,
        };
        for _ in 0..2 {
            let host = world.start(INIT, random);
            world.launch(host, random);
        }
        // The one who searches: a server itself, now and then.
        let starter = match random.percent(30) {
            true => *random.pick(&world.processes.keys().copied().collect::<Vec<_>>()),
            false => 0,
        };
        world.searcher = match starter {
            0 => world.start(INIT, random),
            starter => world.fork(starter, random),
        };
        world
    }

    pub(super) fn note(&mut self, what: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(what());
        }
    }

    fn start(&mut self, starter: u64, random: &mut Random) -> u32 {
        let pid = self.take_pid();
        // The clock is set back, seldom.
        self.clock = match random.percent(2) {
            true => self.clock.saturating_sub(random.below(40)).max(1),
            false => self.clock + 1 + random.below(4),
        };
        let process = Proc {
            unique: self.next_unique,
            started_by: starter,
            parent: starter,
            start: self.clock,
            label: Label::None,
            is_readable: true,
            is_own: true,
            is_zombie: false,
            is_stopped: false,
            is_stuck: false,
            is_watcher: false,
            owner: None,
            host: None,
        };
        self.next_unique += 1;
        self.processes.insert(pid, process);
        pid
    }

    /// The next number that is free.
    fn take_pid(&mut self) -> u32 {
        loop {
            let pid = self.next_pid;
            let next = pid + 1;
            self.next_pid = match PIDS.contains(&next) {
                true => next,
                false => PIDS.start,
            };
            if !self.processes.contains_key(&pid) {
                return pid;
            }
        }
    }

    fn the(&mut self, pid: u32) -> &mut Proc {
        match self.processes.get_mut(&pid) {
            Some(process) => process,
            None => unreachable!("it is there"),
        }
    }

    fn fork(&mut self, pid: u32, random: &mut Random) -> u32 {
        let parent = self.processes[&pid].clone();
        let child = self.start(parent.unique, random);
        let chance = random.below(100);
        let it = self.the(child);
        it.label = parent.label;
        it.owner = parent.owner;
        it.is_readable = parent.is_readable;
        // Set-uid programs, and what they start.
        it.is_own = parent.is_own && chance >= 3;
        it.is_stuck = chance >= 98;
        self.note(|| format!("{pid} forks {child}"));
        child
    }

    /// A process launches a server, and is a host from then on, with a watcher.
    fn launch(&mut self, pid: u32, random: &mut Random) {
        let process = self.processes[&pid].clone();
        let host = process.host.unwrap_or(self.hosts.len());
        if process.host.is_none() {
            if let Some(id) = HostId::new(pid, process.start, BOOT, host as u64) {
                self.hosts.push((id, process.unique));
            }
            self.the(pid).host = Some(host);
            let watcher = self.start(process.unique, random);
            let is_readable = random.percent(10);
            let it = self.the(watcher);
            (it.is_watcher, it.is_readable) = (true, is_readable);
        }
        let server = self.start(process.unique, random);
        let is_readable = random.percent(80);
        let it = self.the(server);
        (it.label, it.owner) = (Label::Of(host), Some(host));
        (it.is_own, it.is_readable) = (process.is_own, is_readable);
        self.note(|| format!("{pid} launches {server} as host {host}"));
    }

    /// Somebody who has nothing to do with hosts, but may carry what one has left.
    fn stranger(&mut self, random: &mut Random) {
        let host = random.below(self.hosts.len() as u64) as usize;
        let pid = self.start(INIT, random);
        let label = match random.below(20) {
            0 => Label::Garbage,
            1 => Label::OtherBoot(host),
            // It was given the mark: it is taken for a server.
            2 => Label::Of(host),
            _ => Label::None,
        };
        let (is_own, is_readable) = (random.percent(80), random.percent(60));
        let it = self.the(pid);
        (it.label, it.is_own, it.is_readable) = (label, is_own, is_readable);
        if let Label::Of(host) = label {
            it.owner = Some(host);
        }
        self.note(|| format!("a stranger: {pid} {label:?}"));
    }

    /// One thing happens.
    pub(super) fn live(&mut self, random: &mut Random) {
        let acting = self.processes.iter().filter(|(pid, one)| {
            !one.is_zombie && !one.is_stopped && !one.is_watcher && **pid != self.searcher
        });
        let acting: Vec<u32> = acting.map(|(pid, _)| *pid).collect();
        if acting.is_empty() {
            return self.stranger(random);
        }
        let pid = *random.pick(&acting);
        let has_room = self.processes.len() + 2 < CROWD;
        match random.below(20) {
            0..=5 if has_room => drop(self.fork(pid, random)),
            6 | 7 if has_room => self.stranger(random),
            8 | 9 if has_room => self.launch(pid, random),
            10..=13 => self.exit(pid),
            14 | 15 => self.exec(pid, random),
            _ => self.reap(pid),
        }
    }

    fn exec(&mut self, pid: u32, random: &mut Random) {
        let it = self.the(pid);
        match random.percent(40) {
            true => it.label = Label::None,
            false => it.is_readable = !it.is_readable,
        }
        let said = (it.label, it.is_readable);
        self.note(|| format!("{pid} executes, {said:?}"));
    }

    /// It ends, and what follows from that without anybody's doing.
    pub(super) fn exit(&mut self, pid: u32) {
        let it = self.the(pid);
        (it.is_zombie, it.is_stopped) = (true, false);
        let unique = it.unique;
        for orphan in self.processes.values_mut() {
            if orphan.parent == unique {
                orphan.parent = INIT;
                // The end of its input.
                orphan.is_zombie |= orphan.is_watcher;
            }
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

    /// The truth: this host runs.
    pub(super) fn lives(&self, host: usize) -> bool {
        let unique = self.hosts[host].1;
        let mut processes = self.processes.values();
        processes.any(|one| one.unique == unique && !one.is_zombie)
    }

    pub(super) fn by_unique(&self, unique: u64) -> Option<(u32, &Proc)> {
        let mut processes = self.processes.iter();
        let found = processes.find(|(_, one)| one.unique == unique);
        found.map(|(pid, one)| (*pid, one))
    }
}
