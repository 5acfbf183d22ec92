//! The descendants, held such that signalling one cannot hit anybody else.

use crate::procfs;
use crate::stat::Stat;
use crate::staying::Staying;
use crate::sys::{self, Once, Pid, Signal};

/// How many descendants can be known at once. What does not fit is out of reach of SIGTERM; killing reaches it, because it ends when all
/// are reaped and looks again until then.
const CAPACITY: usize = 2048;

/// Reading a tree that changes meanwhile is repeated at most this often.
const ATTEMPTS: u32 = 8;

/// A descendant, identified by pid and start time.
#[derive(Clone, Copy)]
pub(crate) struct Process {
    pub(crate) group: u32,
    /// It is to stay, or below one that is.
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

    /// Whether nothing is known of it but its number.
    const fn is_hidden(&self) -> bool {
        self.started == 0
    }

    /// Signals this process or nothing.
    pub(crate) fn signal(&self, signals: &[Signal]) {
        let Some(pid) = Pid::new(self.pid) else {
            return;
        };
        if sys::is_own_child(pid) {
            // Whatever has this number is ours to reap, so it keeps the number while we look; it is this process, or a younger child.
            for &signal in signals {
                let _ = sys::kill(pid, signal);
            }
            return;
        }
        let Ok(pidfd) = sys::pidfd_open(self.pid) else {
            return;
        };
        // Opened before this look: if the pidfd's process has been reaped since, it has no successor as far as the pidfd is concerned.
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
    /// How many had ended when they were looked at.
    dead: usize,
    staying: Staying,
    /// The server's own process, which never stays.
    leader: u32,
    processes: [Process; CAPACITY],
}

static TREE: Once<Tree> = Once::new(Tree {
    len: 0,
    dead: 0,
    staying: Staying::NOBODY,
    leader: 0,
    processes: [Process::NONE; CAPACITY],
});

impl Tree {
    /// The one tree there is memory for.
    pub(crate) fn take(staying: Staying) -> Option<&'static mut Self> {
        let tree = TREE.take()?;
        tree.staying = staying;
        Some(tree)
    }

    /// Whether anybody may stay.
    pub(crate) fn may_keep(&self) -> bool {
        self.staying.is_possible()
    }

    /// Reads the descendants of the caller, whose pid is `me`. `leader` is the server's own process, as long as it is not reaped.
    pub(crate) fn read(&mut self, me: u32, leader: Option<Pid>) -> &[Process] {
        self.leader = leader.map_or(0, Pid::get);
        let mut dead_before = 0;
        for _ in 0..ATTEMPTS {
            let steady = self.read_once(me);
            // Who was dead when it was looked at may have been alive when it was listed, with children that are somebody else's now.
            if steady && self.dead == dead_before {
                break;
            }
            dead_before = self.dead;
        }
        self.processes.get(..self.len).unwrap_or_default()
    }

    /// Whether the caller, whose pid is `me`, has children, and each of them stays: then nobody is left but those, and who is below them. One
    /// that cannot be looked at, or that has ended and waits to be reaped, does not stay. The list is that of the kernel, which has everybody
    /// whom the caller has not reaped, also those whom /proc hides.
    pub(crate) fn has_only_children_that_stay(&self, me: u32) -> bool {
        let (mut anybody, mut all) = (false, true);
        procfs::children(me, &mut |pid| {
            if Pid::new(pid).is_some_and(sys::is_own_child) {
                anybody = true;
                all &= procfs::stat(pid).is_some_and(|stat| !stat.is_dead() && self.staying.has(pid, &stat));
            }
        });
        anybody && all
    }

    /// Reads the tree, and returns whether nobody ended meanwhile.
    fn read_once(&mut self, me: u32) -> bool {
        self.len = 0;
        self.dead = 0;
        procfs::children(me, &mut |pid| {
            // In another PID namespace's /proc these are not our numbers. The kernel knows.
            if !Pid::new(pid).is_some_and(sys::is_own_child) {
                return;
            }
            match procfs::stat(pid).filter(|stat| stat.parent == me) {
                Some(stat) => self.push(pid, &stat, false),
                // Where somebody stays, everybody else is ended by what this list has.
                None if self.may_keep() => self.push_hidden(pid),
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
                // It has ended meanwhile: children that were not seen here are the caller's by now.
                Some(_) => steady = false,
                // Nor was its number its own all the time: the children are not proven.
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

    /// A child that /proc does not show: its group is not known, and nothing says that it stays.
    fn push_hidden(&mut self, pid: u32) {
        self.add(Process { pid, ..Process::NONE });
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
