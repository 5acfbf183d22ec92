//! Asking and forcing the tree to end.

use crate::procfs;
use crate::sys::{self, Fd, Pid, Signal};
use crate::tree::Tree;

/// From this round on everything below our children is killed as well. Before, that would be wasted work: a killed parent's
/// children become ours, and killing a child of ours takes one call instead of six.
const DEEP_ROUND: u32 = 8;

/// Rounds that found nobody, although there are children, before /proc is no longer believed.
const BLIND_ROUNDS: u32 = 2;

/// The largest process id any kernel gives out.
const PID_MAX: u32 = 1 << 22;

/// The processes to end, and the means.
pub(crate) struct Sweep {
    tree: &'static mut Tree,
    me: u32,
    cgroup_kill: Option<Fd>,
    rounds: u32,
    blind: u32,
}

impl Sweep {
    pub(crate) fn new(tree: &'static mut Tree, cgroup_kill: Option<Fd>) -> Self {
        Self {
            tree,
            me: sys::getpid(),
            cgroup_kill,
            rounds: 0,
            blind: 0,
        }
    }

    /// SIGTERM, and SIGCONT so that a stopped process can act on it, once to everybody.
    ///
    /// `leader` is the server's own process, as long as it has not been reaped.
    pub(crate) fn terminate(&mut self, leader: Option<Pid>) {
        const SIGNALS: [Signal; 2] = [Signal::TERM, Signal::CONT];
        // First look, then act: the first thing a SIGTERM does is to change the tree.
        let processes = self.tree.read(self.me);
        // The group at one blow. Its number is the leader's and cannot be reissued before the leader is reaped.
        if let Some(leader) = leader {
            for signal in SIGNALS {
                let _ = sys::kill_group(leader, signal);
            }
        }
        let group = leader.map(Pid::get);
        // A second SIGTERM would mean "now" to many programs.
        processes
            .iter()
            .filter(|process| Some(process.group) != group)
            .for_each(|process| process.signal(&SIGNALS));
    }

    /// This signal to the server's process group. `inside` a namespace, the leader is its init, and the server's group is that of init's child.
    pub(crate) fn pass_on(&mut self, leader: Option<Pid>, signal: Signal, inside: bool) {
        let Some(leader) = leader else { return };
        if !inside {
            let _ = sys::kill_group(leader, signal);
            return;
        }
        let processes = self.tree.read(self.me);
        let mut groups = processes.iter().map(|process| process.group);
        let group = groups.find(|&group| group != leader.get());
        processes
            .iter()
            .filter(|process| Some(process.group) == group)
            .for_each(|process| process.signal(&[signal]));
    }

    pub(crate) fn cgroup_kill(&self) -> Option<&Fd> {
        self.cgroup_kill.as_ref()
    }

    /// One round of SIGKILL to everybody in reach; says how many children it reached.
    ///
    /// Rounds are repeated until no child is left: only that is proof.
    pub(crate) fn kill(&mut self, leader: Option<Pid>) -> usize {
        self.rounds = self.rounds.saturating_add(1);
        if let Some(kill) = &self.cgroup_kill {
            let _ = sys::write(kill, b"1");
        }
        if let Some(leader) = leader {
            let _ = sys::kill_group(leader, Signal::KILL);
            // Also if it has moved to another group.
            kill_child(leader.get());
        }
        let mut reached = 0;
        procfs::children(self.me, &mut |pid| reached += usize::from(kill_child(pid)));
        if self.rounds >= DEEP_ROUND {
            self.tree
                .read(self.me)
                .iter()
                .for_each(|process| process.signal(&[Signal::KILL]));
        }
        self.blind = if reached == 0 {
            self.blind.saturating_add(1)
        } else {
            0
        };
        if self.blind > BLIND_ROUNDS {
            // No /proc, or not ours. The kernel still knows which numbers are children of ours.
            let numbers = (2..=PID_MAX).filter(|&pid| Pid::new(pid).is_some_and(sys::exists));
            reached = numbers.filter(|&pid| kill_child(pid)).count();
        }
        reached
    }
}

/// Kills `pid` if it is a child of ours, and says whether it is.
fn kill_child(pid: u32) -> bool {
    let Some(pid) = Pid::new(pid).filter(|&pid| sys::is_own_child(pid)) else {
        return false;
    };
    // Nobody else can reap it, so the number stays its number until we do.
    sys::forbid_forks(pid);
    let _ = sys::kill(pid, Signal::KILL);
    true
}
