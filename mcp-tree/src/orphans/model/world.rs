//! The processes of the model, their parents, and what happens to them.

use std::collections::BTreeMap;

use super::Decisions;
use super::course::Course;
use super::random::Random;
use crate::identity::{Cookie, HostId};

pub(super) const BOOT: &str = "01234567-89ab-cdef-0123-456789abcdef";

/// The first process of the machine; it reaps at once.
pub(super) const INIT: u32 = 1;
/// The first process of a PID namespace that belongs to no server.
pub(super) const FOREIGN_INIT: u32 = 2;
/// Numbers are given out again: there are not many.
const PIDS: std::ops::Range<u32> = 10..120;
/// More live of one server only in a storm.
const CROWD: usize = 12;

/// What a process says about whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    Truth,
    /// It has wiped its environment.
    Nothing,
    /// Its environment cannot be read.
    Hidden,
}

/// Whose a process really is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    Server(usize),
    Guardian(usize),
    Host(usize),
    Nobody,
}

#[derive(Debug, Clone)]
pub(super) struct Proc {
    pub(super) owner: Owner,
    pub(super) start: u64,
    pub(super) parent: u32,
    pub(super) session: u32,
    pub(super) group: u32,
    pub(super) said: Said,
    /// Whose cgroup it is in.
    pub(super) inside: Option<usize>,
    /// In a foreign PID namespace: orphans go to its first process.
    pub(super) foreign: bool,
    pub(super) zombie: bool,
}

/// What keeps a guardian from its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hindered {
    No,
    Stopped,
    /// By a tracer: nobody else can make it go on.
    Held,
}

#[derive(Debug)]
pub(super) struct Server {
    pub(super) host: usize,
    pub(super) cookie: Cookie,
    pub(super) guardian: Option<u32>,
    pub(super) hindered: Hindered,
    pub(super) course: Course,
    /// An order to kill is in the guardian's socket.
    pub(super) ordered: bool,
    /// The guardian's last word is in the host's socket.
    pub(super) gone: bool,
    pub(super) main: (u32, u64),
    /// The main process dies with its guardian.
    pdeath: bool,
    pub(super) has_cgroup: bool,
    /// Its directory is there.
    pub(super) cgroup: bool,
    /// Nobody but the host has ended its guardian.
    pub(super) guarded: bool,
    /// On record in the ledger of its host.
    pub(super) recorded: bool,
    /// What the host has concluded: a proof, or that there is none.
    pub(super) proven: Option<bool>,
    /// Nobody of it was started before.
    pub(super) since: u64,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Blind {
    pub(super) main: bool,
    pub(super) cgroup: bool,
    pub(super) marks: bool,
}

#[derive(Debug)]
pub(super) struct Host {
    pub(super) id: HostId,
    pub(super) pid: u32,
    pub(super) alive: bool,
    pub(super) ledger: bool,
    /// Its session at its first launch.
    pub(super) session: u32,
    /// What it cannot look at now, for want of descriptors or of rights.
    pub(super) blind: Blind,
}

/// All of it.
#[derive(Debug)]
pub(super) struct World {
    pub(super) decisions: Decisions,
    pub(super) processes: BTreeMap<u32, Proc>,
    pub(super) servers: Vec<Server>,
    pub(super) hosts: Vec<Host>,
    pub(super) now: u64,
    next_pid: u32,
    /// What has happened, for a report; not kept unless it is wanted.
    pub(super) trace: Option<Vec<String>>,
}

impl World {
    pub(super) fn new(random: &mut Random, decisions: Decisions) -> Self {
        let mut world = Self {
            decisions,
            processes: BTreeMap::new(),
            servers: Vec::new(),
            hosts: Vec::new(),
            now: 100,
            next_pid: PIDS.start,
            trace: None,
        };
        let shell = world.spawn(Proc::of(Owner::Nobody, INIT));
        world.make_session(shell);
        for number in 0..2 {
            let pid = world.spawn(Proc::of(Owner::Host(number), INIT));
            world.choose_session(pid, shell, random);
            let start = world.processes[&pid].start;
            let id = HostId::new(pid, start, BOOT, number as u64);
            let Some(id) = id else { continue };
            world.hosts.push(Host {
                id,
                pid,
                alive: true,
                ledger: true,
                session: world.processes[&pid].session,
                blind: Blind::default(),
            });
            for _ in 0..1 + random.below(2) {
                world.launch(number, random);
                if random.percent(10) {
                    world.make_session(pid);
                }
            }
        }
        // In its own or the host's session, nothing tells it from an adopted one.
        let stranger = world.spawn(Proc::of(Owner::Nobody, INIT));
        world.choose_session(stranger, shell, random);
        world
    }

    /// A session whose leader is not visible, the shell's, or its own.
    fn choose_session(&mut self, pid: u32, shell: u32, random: &mut Random) {
        let session = *random.pick(&[0, shell, pid]);
        if let Some(process) = self.processes.get_mut(&pid) {
            (process.session, process.group) = (session, session);
        }
    }

    pub(super) fn note(&mut self, what: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(what());
        }
    }

    fn launch(&mut self, host: usize, random: &mut Random) {
        let server = self.servers.len();
        let has_cgroup = random.percent(60);
        let since = self.now;
        let guardian = self.spawn(Proc::of(Owner::Guardian(server), self.hosts[host].pid));
        self.make_session(guardian);
        let main = self.spawn(Proc {
            session: self.processes[&self.hosts[host].pid].session,
            inside: has_cgroup.then_some(server),
            ..Proc::of(Owner::Server(server), guardian)
        });
        self.lead_group(main);
        let start = self.processes[&main].start;
        self.servers.push(Server {
            host,
            cookie: Cookie::new(self.hosts[host].id.clone(), server as u64),
            guardian: Some(guardian),
            hindered: Hindered::No,
            course: Course::new(),
            ordered: false,
            gone: false,
            main: (main, start),
            pdeath: random.percent(80),
            has_cgroup,
            cgroup: has_cgroup,
            guarded: true,
            recorded: true,
            proven: None,
            since,
        });
    }

    /// A new process, with the next number that is free.
    fn spawn(&mut self, process: Proc) -> u32 {
        while self.is_taken(self.next_pid) {
            self.advance_pid();
        }
        let pid = self.next_pid;
        self.advance_pid();
        self.now += 1;
        let start = self.now;
        self.processes.insert(pid, Proc { start, ..process });
        pid
    }

    /// As a process, or as the session or the group of one.
    fn is_taken(&self, number: u32) -> bool {
        let mut processes = self.processes.iter();
        processes.any(|(pid, it)| *pid == number || it.session == number || it.group == number)
    }

    fn make_session(&mut self, pid: u32) {
        if let Some(process) = self.processes.get_mut(&pid) {
            (process.session, process.group) = (pid, pid);
        }
    }

    fn lead_group(&mut self, pid: u32) {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.group = pid;
        }
    }

    fn advance_pid(&mut self) {
        let next = self.next_pid + 1;
        self.next_pid = if PIDS.contains(&next) {
            next
        } else {
            PIDS.start
        };
    }

    /// One thing happens.
    pub(super) fn step(&mut self, random: &mut Random) -> Result<(), String> {
        let server = random.below(self.servers.len() as u64) as usize;
        let host = random.below(self.hosts.len() as u64) as usize;
        match random.below(40) {
            0..=9 => self.live(random),
            10..=15 => return self.guardian_turn(server),
            16..=20 => return self.host_turn(server),
            21..=23 => return self.force(server),
            24 => self.kill_guardian(server),
            25 => self.hinder(server, Hindered::Stopped),
            26 => self.hinder(server, Hindered::Held),
            27 | 28 => self.hinder(server, Hindered::No),
            29 => self.kill_host(host),
            30 => {
                let blind = Blind {
                    main: random.percent(50),
                    cgroup: random.percent(50),
                    marks: random.percent(50),
                };
                self.note(|| format!("host {host}: {blind:?}"));
                self.hosts[host].blind = blind;
            }
            31 | 32 => return self.reap(random, true, 30),
            33 => return self.reap(random, false, 0),
            34 => self.move_in(random),
            35 if self.hosts[host].alive => self.make_session(self.hosts[host].pid),
            _ => self.now += 1 << random.below(30),
        }
        Ok(())
    }

    /// A server does something.
    pub(super) fn live(&mut self, random: &mut Random) {
        let alive = self.processes.iter().filter_map(|(pid, process)| {
            let Owner::Server(server) = process.owner else {
                return None;
            };
            (!process.zombie).then_some((*pid, server))
        });
        let alive: Vec<_> = alive.collect();
        if alive.is_empty() {
            return;
        }
        let (pid, server) = *random.pick(&alive);
        let crowd = alive.iter().filter(|(_, of)| *of == server).count();
        let act = random.below(12);
        self.note(|| format!("{pid} of server {server} does {act}"));
        let Some(process) = self.processes.get_mut(&pid) else {
            return;
        };
        // Whoever is in another's cgroup and does not say whose it is, is taken
        // for its own: nothing tells them apart.
        let is_at_home = process.inside.is_none_or(|inside| inside == server);
        match act {
            0 if is_at_home => process.said = Said::Nothing,
            1 if is_at_home => process.said = Said::Hidden,
            2 => process.inside = None,
            3 | 4 => self.die(pid),
            10 => (process.session, process.group) = (pid, pid),
            11 if process.session != pid => process.group = pid,
            foreign_if_5 if crowd < CROWD => {
                let child = Proc {
                    parent: pid,
                    foreign: process.foreign || foreign_if_5 == 5,
                    ..process.clone()
                };
                self.spawn(child);
            }
            _ => {}
        }
    }

    /// A process ends, and what follows from that without anybody's doing.
    pub(super) fn die(&mut self, pid: u32) {
        let Some(process) = self.processes.get(&pid).filter(|process| !process.zombie) else {
            return;
        };
        let owner = process.owner;
        // Whoever is abroad leaves its children there, and nobody else does.
        let heir = match process.foreign {
            true => FOREIGN_INIT,
            false => self.heir_of(pid),
        };
        let parent = process.parent;
        if let Some(process) = self.processes.get_mut(&pid) {
            process.zombie = true;
            process.inside = None;
        }
        let children: Vec<u32> = self.children_of(pid).collect();
        for child in children {
            let Some(orphan) = self.processes.get_mut(&child) else {
                continue;
            };
            orphan.parent = heir;
            if orphan.zombie && orphan.parent <= FOREIGN_INIT {
                self.processes.remove(&child);
            }
        }
        match owner {
            Owner::Guardian(server) => {
                let (main, start) = self.servers[server].main;
                self.servers[server].guardian = None;
                self.processes.remove(&pid);
                let is_main = |process: &&Proc| process.start == start;
                if self.servers[server].pdeath
                    && self.processes.get(&main).filter(is_main).is_some()
                {
                    self.die(main);
                }
            }
            Owner::Host(host) => {
                self.hosts[host].alive = false;
                self.processes.remove(&pid);
            }
            _ if parent <= FOREIGN_INIT || !self.processes.contains_key(&parent) => {
                self.processes.remove(&pid);
            }
            _ => {}
        }
    }

    pub(super) fn children_of(&self, parent: u32) -> impl Iterator<Item = u32> {
        let children = self
            .processes
            .iter()
            .filter(move |(_, child)| child.parent == parent);
        children.map(|(pid, _)| *pid)
    }

    /// To whom the kernel gives the children of this process: the guardian, if
    /// it is below it.
    fn heir_of(&self, pid: u32) -> u32 {
        let mut above = self.processes.get(&pid).map(|process| process.parent);
        while let Some(pid) = above {
            match self.processes.get(&pid) {
                Some(process) if matches!(process.owner, Owner::Guardian(_)) => return pid,
                Some(process) => above = Some(process.parent),
                None => above = None,
            }
        }
        INIT
    }

    /// Everybody of a server who lives.
    pub(super) fn alive_of(&self, server: usize) -> impl Iterator<Item = (&u32, &Proc)> {
        let is_alive = move |(_, process): &(&u32, &Proc)| {
            process.owner == Owner::Server(server) && !process.zombie
        };
        self.processes.iter().filter(is_alive)
    }
}

impl Proc {
    fn of(owner: Owner, parent: u32) -> Self {
        Self {
            owner,
            start: 0,
            parent,
            session: 0,
            group: 0,
            said: Said::Truth,
            inside: None,
            foreign: false,
            zombie: false,
        }
    }
}
