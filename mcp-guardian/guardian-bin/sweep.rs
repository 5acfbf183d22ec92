//! Kills the tree, in rounds.

use crate::procfs;
use crate::staying;
use crate::sys::{self, Fd, Pid, Signal};
use crate::tree::{Process, Tree};

/// First round that kills deeper descendants. Earlier it would be wasted: a killed parent's
/// children become ours, and killing our own child takes one call instead of six.
const DEEP_ROUND: u32 = 8;

/// Rounds without a find, although there are children, after which /proc is distrusted.
const BLIND_ROUNDS: u32 = 2;

/// Rounds in which staying processes are moved out of the cgroup, including those that they fork
/// meanwhile.
const KEEP_ROUNDS: u32 = 8;

/// The largest pid of any kernel.
const PID_MAX: u32 = 1 << 22;

pub(crate) struct Sweep {
    pub(crate) tree: Tree,
    pub(crate) cgroup_kill: Option<Fd>,
    rounds: u32,
    blind: u32,
}

impl Sweep {
    pub(crate) fn new(tree: Tree, cgroup_kill: Option<Fd>) -> Self {
        Self {
            tree,
            cgroup_kill,
            rounds: 0,
            blind: 0,
        }
    }

    /// Moves staying processes out of the server's cgroup. Returns whether none of them is inside.
    pub(crate) fn put_beside(&mut self, leader: Option<Pid>, cgroup: &[u8]) -> bool {
        if !self.tree.may_keep() {
            return true;
        }
        for _ in 0..KEEP_ROUNDS {
            let processes = self.tree.read(leader).iter();
            let mut inside = processes.filter(|process| process.stays && staying::is_inside(process.pid, cgroup)).peekable();
            if inside.peek().is_none() {
                return true;
            }
            if inside.any(|process| staying::put_beside(process.pid).is_err()) {
                return false;
            }
        }
        false
    }

    /// Does the same as [`kill`](Self::kill) beside staying processes.
    fn kill_others(&mut self, leader: Option<Pid>, cgroup: &[u8]) -> usize {
        if !cgroup.is_empty() && self.put_beside(leader, cgroup) && let Some(kill) = &self.cgroup_kill {
            let _ = sys::write(kill, b"1");
        }
        let processes = self.tree.read(leader);
        self.blind = if processes.is_empty() { self.blind.saturating_add(1) } else { 0 };
        let others = processes.iter().filter(|process| !process.stays);
        others.inspect(|process| process.signal(&[Signal::KILL])).filter(|process| is_own(process)).count()
    }

    /// Sends SIGKILL once to every reachable process. Returns how many children it reached.
    /// Repeated until no child is left, which is the proof.
    pub(crate) fn kill(&mut self, leader: Option<Pid>, cgroup: &[u8]) -> usize {
        self.rounds = self.rounds.saturating_add(1);
        // If processes cannot be identified, none stays.
        if self.tree.may_keep() && self.blind <= BLIND_ROUNDS {
            return self.kill_others(leader, cgroup);
        }
        if let Some(kill) = &self.cgroup_kill {
            let _ = sys::write(kill, b"1");
        }
        if let Some(leader) = leader {
            let _ = sys::kill_group(leader, Signal::KILL);
            // In case it has moved to another group.
            kill_child(leader.get());
        }
        let mut reached = 0;
        procfs::children(self.tree.me, &mut |pid| reached += usize::from(kill_child(pid)));
        if self.rounds >= DEEP_ROUND {
            self.tree
                .read(leader)
                .iter()
                .for_each(|process| process.signal(&[Signal::KILL]));
        }
        self.blind = if reached == 0 { self.blind.saturating_add(1) } else { 0 };
        if self.blind > BLIND_ROUNDS {
            // /proc is missing or not ours. The kernel still tells which pids are our children.
            let numbers = (2..=PID_MAX).filter(|&pid| Pid::new(pid).is_some_and(sys::exists));
            reached = numbers.filter(|&pid| kill_child(pid)).count();
        }
        reached
    }
}

fn is_own(process: &Process) -> bool {
    Pid::new(process.pid).is_some_and(sys::is_own_child)
}

/// Kills `pid` if it is our child. Returns whether it is.
fn kill_child(pid: u32) -> bool {
    let Some(pid) = Pid::new(pid).filter(|&pid| sys::is_own_child(pid)) else {
        return false;
    };
    // Only we can reap it, so its pid is reserved.
    sys::forbid_forks(pid);
    let _ = sys::kill(pid, Signal::KILL);
    true
}
