//! The descendants, held so that a signal cannot hit another process.

use crate::procfs;
use crate::stat::Stat;
use crate::staying::Staying;
use crate::sys::{self, Once, Pid, Signal};

/// Maximum number of known descendants. Others get no SIGTERM; killing repeats until all are reaped.
const CAPACITY: usize = 2048;

const ATTEMPTS: u32 = 8;

/// A descendant, identified by pid and start time.
#[derive(Clone, Copy)]
pub(crate) struct Process {
    pub(crate) group: u32,
    /// It is to stay, or is below one that is.
    pub(crate) stays: bool,
    pub(crate) pid: u32,
    started: u64,
}

impl Process {
    const NONE: Self = Self {
        group: 0,
        stays: false,
        pid: 0,
        started: 0,
    };

    const fn is_hidden(&self) -> bool {
        self.started == 0
    }

    /// Signals exactly this process or none.
    pub(crate) fn signal(&self, signals: &[Signal]) {
        let Some(pid) = Pid::new(self.pid) else {
            return;
        };
        if sys::is_own_child(pid) {
            // Only we can reap a process with this pid, so it is this process or a younger child.
            for &signal in signals {
                let _ = sys::kill(pid, signal);
            }
            return;
        }
        let Ok(pidfd) = sys::pidfd_open(self.pid) else {
            return;
        };
        // Opened before this check: if its process has been reaped since, the pidfd refers to none.
        if procfs::stat(self.pid).is_some_and(|stat| stat.started == self.started) {
            for &signal in signals {
                let _ = sys::pidfd_send_signal(&pidfd, signal);
            }
        }
    }
}

/// The live descendants at one time, parents before their children.
pub(crate) struct Tree {
    len: usize,
    dead: usize,
    pub(crate) staying: Staying,
    pub(crate) me: u32,
    /// The server's own process, which never stays.
    leader: u32,
    processes: &'static mut [Process; CAPACITY],
}

static PROCESSES: Once<[Process; CAPACITY]> = Once::new([Process::NONE; CAPACITY]);

impl Tree {
    pub(crate) fn take(staying: Staying) -> Option<Self> {
        PROCESSES.take().map(|processes| Self {
            len: 0,
            dead: 0,
            staying,
            me: sys::getpid(),
            leader: 0,
            processes,
        })
    }

    pub(crate) fn may_keep(&self) -> bool {
        self.staying.is_possible()
    }

    /// Reads the descendants. `leader` is the server's own process until it is reaped.
    pub(crate) fn read(&mut self, leader: Option<Pid>) -> &[Process] {
        self.leader = leader.map_or(0, Pid::get);
        let mut dead_before = 0;
        for _ in 0..ATTEMPTS {
            let steady = self.read_once();
            // A process that was found dead may have been alive when it was listed, with children
            // that were reparented since.
            if steady && self.dead == dead_before {
                break;
            }
            dead_before = self.dead;
        }
        self.processes.get(..self.len).unwrap_or_default()
    }

    /// Returns whether there are children, and all of them stay. One that is unreadable, or not yet
    /// reaped, does not stay.
    pub(crate) fn has_only_children_that_stay(&self) -> bool {
        if !self.may_keep() {
            return false;
        }
        let (mut any, mut all) = (false, true);
        procfs::children(self.me, &mut |pid| {
            if Pid::new(pid).is_some_and(sys::is_own_child) {
                any = true;
                all &= procfs::stat(pid).is_some_and(|stat| !stat.is_dead() && self.staying.has(pid, &stat));
            }
        });
        any && all
    }

    /// Reads the tree. Returns whether no process ended meanwhile.
    fn read_once(&mut self) -> bool {
        let me = self.me;
        self.len = 0;
        self.dead = 0;
        procfs::children(me, &mut |pid| {
            // In another PID namespace's /proc these are not our pids. The kernel knows.
            if !Pid::new(pid).is_some_and(sys::is_own_child) {
                return;
            }
            match procfs::stat(pid).filter(|stat| stat.parent == me) {
                Some(stat) => self.push(pid, &stat, false),
                // With staying processes, the others are ended by this list.
                None if self.may_keep() => self.add(Process { pid, ..Process::NONE }),
                None => {}
            }
        });
        let mut steady = true;
        let mut next = 0;
        while let Some(&parent) = self
            .processes
            .get(..self.len)
            .and_then(|known| known.get(next))
        {
            next += 1;
            if parent.is_hidden() {
                continue;
            }
            let before = self.len;
            procfs::children(parent.pid, &mut |pid| {
                match procfs::stat(pid) {
                    Some(stat) if stat.parent == parent.pid || stat.parent == me => {
                        self.push(pid, &stat, parent.stays);
                    }
                    Some(_) => {}
                    None => self.dead = self.dead.saturating_add(1),
                }
            });
            match procfs::stat(parent.pid).filter(|stat| stat.started == parent.started) {
                Some(stat) if !stat.is_dead() => {}
                // It has ended meanwhile: unseen children now belong to the caller.
                Some(_) => steady = false,
                // Its pid was reused: the children are not proven.
                None => {
                    self.len = before;
                    steady = false;
                }
            }
        }
        steady
    }

    fn push(&mut self, pid: u32, stat: &Stat, is_below: bool) {
        if stat.is_dead() {
            self.dead = self.dead.saturating_add(1);
            return;
        }
        let stays = pid != self.leader && (is_below || self.staying.has(pid, stat));
        self.add(Process {
            pid,
            stays,
            group: stat.group,
            started: stat.started,
        });
    }

    fn add(&mut self, process: Process) {
        let known = self
            .processes
            .get(..self.len)
            .is_some_and(|known| known.iter().any(|it| it.pid == process.pid));
        if !known
            && let Some(free) = self.processes.get_mut(self.len)
        {
            *free = process;
            self.len += 1;
        }
    }
}
