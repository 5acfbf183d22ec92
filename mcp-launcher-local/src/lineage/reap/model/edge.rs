//! The system calls of the model. Before each of them the world may go on.

use std::io;

use super::world::{BOOT, INIT, Label, Proc, World};
use crate::identity::{Cookie, HostId};
use crate::lineage::model::random::Random;
use crate::lineage::reap::{Fact, Machine, Said};
use crate::lineage::{Listing, Order, Processes, Seen, Sent};
use crate::orphans::verdict::Mark;
use crate::sys::Pid;

const OTHER_BOOT: &str = "99999999-89ab-cdef-0123-456789abcdef";
/// So often somebody is waited for who does not end.
const PATIENCE: usize = 8;

pub(super) struct Edge<'a> {
    world: &'a mut World,
    random: &'a mut Random,
    /// Nothing happens between our calls.
    is_quiet: bool,
    truncated: u32,
    paused: usize,
    /// Somebody was.
    pub(super) has_killed: bool,
    wrong: Option<String>,
}

impl<'a> Edge<'a> {
    pub(super) fn new(world: &'a mut World, random: &'a mut Random, is_quiet: bool) -> Self {
        Self {
            world,
            random,
            is_quiet,
            truncated: 0,
            paused: 0,
            has_killed: false,
            wrong: None,
        }
    }

    /// Says what was done wrong.
    pub(super) fn verdict(self) -> Result<(), String> {
        self.wrong.map_or(Ok(()), Err)
    }

    fn go_on(&mut self) {
        if self.is_quiet {
            return;
        }
        // Seldom, so that a search has an end; now and then long enough for a number to be given out again.
        let steps = match self.random.below(250) {
            0 => self.random.below(60),
            1..=10 => 1 + self.random.below(3),
            _ => 0,
        };
        for _ in 0..steps {
            self.world.live(self.random);
        }
    }

    /// Whether a process may be killed, by what is true.
    fn check(&mut self, pid: Pid, process: &Proc) {
        let pid = pid.as_u32();
        let wrong = match process.owner {
            _ if pid == self.world.searcher => "it searches",
            _ if process.is_watcher => "it is a host's watcher",
            _ if process.host.is_some() => "it is a host that lives",
            None => "it is a stranger",
            Some(host) if self.world.lives(host) => "its host lives",
            Some(_) => return,
        };
        self.wrong
            .get_or_insert_with(|| format!("{pid} is killed: {wrong}"));
    }
}

fn seen(pid: Pid, process: &Proc) -> Seen {
    Seen {
        pid,
        unique: process.unique,
        started_by: process.started_by,
        group: pid.as_u32(),
        is_zombie: process.is_zombie,
    }
}

impl Processes for Edge<'_> {
    fn list(&mut self) -> io::Result<Listing> {
        self.go_on();
        if !self.is_quiet && self.random.percent(1) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let pids = self.world.processes.keys();
        let mut pids: Vec<Pid> = pids.filter_map(|pid| Pid::new((*pid).into())).collect();
        let is_whole = self.truncated >= 2 || !self.random.percent(15);
        self.truncated = match is_whole {
            true => 0,
            false => self.truncated + 1,
        };
        if !is_whole {
            pids.truncate(self.random.below(pids.len() as u64) as usize);
        }
        self.world.note(|| format!("a look at {}", pids.len()));
        Ok(Listing { pids, is_whole })
    }

    fn ask(&mut self, pid: Pid) -> io::Result<Option<Seen>> {
        self.go_on();
        let process = self.world.processes.get(&pid.as_u32());
        Ok(process.map(|process| seen(pid, process)))
    }

    fn send(&mut self, pid: Pid, order: Order) -> Sent {
        self.go_on();
        self.world.note(|| format!("{order:?} to {}", pid.as_u32()));
        let Some(process) = self.world.processes.get_mut(&pid.as_u32()) else {
            return Sent::Nobody;
        };
        if process.is_zombie {
            return Sent::Given;
        }
        if !process.is_own {
            return Sent::Refused;
        }
        match order {
            Order::Stop => process.is_stopped = true,
            Order::Continue => process.is_stopped = false,
            Order::Terminate => {}
            Order::Kill => {
                self.has_killed = true;
                let process = process.clone();
                self.check(pid, &process);
                match self.world.processes.get_mut(&pid.as_u32()) {
                    Some(stuck) if stuck.is_stuck => stuck.is_stopped = false,
                    _ => self.world.exit(pid.as_u32()),
                }
            }
        }
        Sent::Given
    }
}

impl Machine for Edge<'_> {
    fn fact(&mut self, pid: Pid) -> io::Result<Option<Fact>> {
        self.go_on();
        let Some(process) = self.world.processes.get(&pid.as_u32()) else {
            return Ok(None);
        };
        let parent = match process.parent {
            INIT => Some(1),
            parent => self.world.by_unique(parent).map(|(pid, _)| pid),
        };
        Ok(Some(Fact {
            seen: seen(pid, process),
            parent: parent.unwrap_or_default(),
            start_time: match process.is_own {
                true => process.start,
                false => 0,
            },
            is_own: process.is_own,
            // What is reported is told apart by it.
            name: process.unique.to_string(),
        }))
    }

    fn read(&mut self, pid: Pid) -> Said {
        self.go_on();
        let process = self.world.processes.get(&pid.as_u32());
        let unseen = || Mark::Unseen("not readable".to_owned());
        let mark = match process {
            Some(process) if process.is_readable && !process.is_zombie => {
                let carried = |host: &HostId| Mark::Cookie(Cookie::new(host.clone(), 1));
                match process.label {
                    Label::None => Mark::None,
                    Label::Of(host) => carried(&self.world.hosts[host].0),
                    Label::Garbage => Mark::Unreadable,
                    Label::OtherBoot(host) => {
                        let host = &self.world.hosts[host].0;
                        HostId::new(host.pid(), host.start_time(), OTHER_BOOT, host.nonce())
                            .map_or_else(unseen, |host| carried(&host))
                    }
                }
            }
            _ => unseen(),
        };
        debug_assert_ne!(OTHER_BOOT, BOOT);
        Said {
            mark,
            is_watcher: process.is_some_and(|process| process.is_watcher),
        }
    }

    fn pause(&mut self) {
        self.go_on();
        self.paused += 1;
    }

    fn is_late(&self) -> bool {
        self.paused >= PATIENCE
    }
}
