//! Who the descendants are, such that signalling one cannot hit anybody else.

use crate::procfs;
use crate::stat::Stat;
use crate::sys::{self, Once, Pid, Signal};

/// How many descendants can be known at once. What does not fit is out of reach of SIGTERM; killing reaches it, because it ends when all
/// are reaped and looks again until then.
const CAPACITY: usize = 2048;

/// Reading a tree that changes meanwhile is repeated at most this often.
const ATTEMPTS: u32 = 3;

/// A descendant, identified by pid and start time.
#[derive(Clone, Copy)]
pub(crate) struct Process {
    pub(crate) group: u32,
    pid: u32,
    started: u64,
}

impl Process {
    const NONE: Self = Self {
        group: 0,
        pid: 0,
        started: 0,
    };

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

    /// Whether the number still belongs to this process.
    fn persists(&self) -> bool {
        procfs::stat(self.pid).is_some_and(|stat| stat.started == self.started)
    }
}

/// The live descendants at one time, parents before their children.
pub(crate) struct Tree {
    len: usize,
    processes: [Process; CAPACITY],
}

static TREE: Once<Tree> = Once::new(Tree {
    len: 0,
    processes: [Process::NONE; CAPACITY],
});

impl Tree {
    /// The one tree there is memory for.
    pub(crate) fn take() -> Option<&'static mut Self> {
        TREE.take()
    }

    /// Reads the descendants of the caller, whose pid is `me`.
    pub(crate) fn read(&mut self, me: u32) -> &[Process] {
        for _ in 0..ATTEMPTS {
            if self.read_once(me) {
                break;
            }
        }
        self.processes.get(..self.len).unwrap_or_default()
    }

    /// Whether it could be read without a parent vanishing meanwhile.
    fn read_once(&mut self, me: u32) -> bool {
        self.len = 0;
        procfs::children(me, &mut |pid| {
            // In another PID namespace's /proc these are not our numbers. The kernel knows.
            if let Some(stat) = procfs::stat(pid).filter(|stat| stat.parent == me)
                && Pid::new(pid).is_some_and(sys::is_own_child)
            {
                self.push(pid, &stat);
            }
        });
        let mut steady = true;
        let mut next = 0;
        while let Some(&parent) = self
            .processes
            .get(..self.len)
            .and_then(|known| known.get(next))
        {
            let before = self.len;
            procfs::children(parent.pid, &mut |pid| {
                if let Some(stat) =
                    procfs::stat(pid).filter(|stat| stat.parent == parent.pid || stat.parent == me)
                {
                    self.push(pid, &stat);
                }
            });
            // The parent's number was the parent's all the time, and so the children are its children; or they are not proven.
            if self.len > before && !parent.persists() {
                self.len = before;
                steady = false;
            }
            next += 1;
        }
        steady
    }

    fn push(&mut self, pid: u32, stat: &Stat) {
        let known = self
            .processes
            .get(..self.len)
            .is_some_and(|known| known.iter().any(|process| process.pid == pid));
        if !known
            && !stat.is_dead()
            && let Some(free) = self.processes.get_mut(self.len)
        {
            *free = Process {
                pid,
                group: stat.group,
                started: stat.started,
            };
            self.len += 1;
        }
    }
}
