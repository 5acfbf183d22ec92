//! The verdict: which processes to end and which to spare. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::identity::{Cookie, HostId};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mark {
    None,
    Cookie(Cookie),
    Unreadable,
    /// The process could be signalled, but its environment not be read, for this reason.
    Unseen(String),
    /// Unknown at this moment, because the process is in `execve` or exits: to be read again.
    Passing,
}

impl Mark {
    pub(super) fn reason(&self) -> &str {
        match self {
            Self::Unseen(why) => why,
            _ => "it kept executing programs while it was examined",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// 0 if unknown.
    pub(crate) parent: u32,
    /// 0 if unknown.
    pub(crate) start_time: u64,
    pub(crate) name: String,
    pub(crate) is_guardian: bool,
    /// It is kept when its server ends: its name is in the list that it carries.
    pub(crate) stays: bool,
    /// Its PID namespace, if it is in the cgroup of a container.
    pub(crate) container: Option<Option<u64>>,
    pub(crate) mark: Mark,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    End,
    /// Wait for it: a guardian that is ending its server. If it were killed, the server's processes
    /// would be set free.
    Wait,
    /// Leave it alone, and report it.
    Spare,
    /// It may be an orphan: leave it alone, report it, and keep the records.
    Doubt,
    /// Ignore it: it is unmarked, or a server of this host.
    Pass,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Emptying {
    /// Kill all members by the cgroup.
    All,
    /// A member is to be spared: judge each of them.
    Each,
    /// Nothing: a member is not visible here.
    Nothing,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeadHost {
    pub(crate) id: HostId,
    pub(crate) namespace: u64,
    /// The main processes of its servers on record, by pid and start time.
    pub(crate) servers: Vec<(u32, u64)>,
}

#[derive(Debug)]
pub(crate) struct Hosts<'a> {
    pub(crate) this: Option<&'a HostId>,
    pub(crate) this_pid: u32,
    pub(crate) boot_id: &'a str,
    pub(crate) dead: &'a [DeadHost],
}

#[derive(Debug, Default)]
pub(crate) struct Scene {
    pub(crate) processes: BTreeMap<u32, Process>,
    /// The pids of living hosts.
    pub(crate) hosts: BTreeSet<u32>,
}

impl Hosts<'_> {
    /// Judges a process. It is spared in case of doubt.
    pub(crate) fn judge(&self, process: &Process, scene: &Scene) -> Verdict {
        let cookie = match &process.mark {
            Mark::Cookie(cookie) => cookie,
            Mark::None => return Verdict::Pass,
            Mark::Unreadable => return Verdict::Spare,
            Mark::Unseen(_) | Mark::Passing => return self.judge_unseen(process),
        };
        if Some(cookie.host()) == self.this {
            return Verdict::Pass;
        }
        let dead = self.dead.iter().find(|dead| dead.id == *cookie.host());
        let Some(dead) = dead.filter(|dead| dead.id.boot_id() == self.boot_id) else {
            return Verdict::Spare;
        };
        let spared = process.pid <= 1
            || self.is_above_or_host(process.pid, scene)
            || self.is_kept(process, scene)
            || self.stays(process, scene)
            // It belongs to an engine: its host was not in that container.
            || process.container.is_some_and(|it| it != Some(dead.namespace))
            // No process is older than its host.
            || process.start_time < dead.id.start_time();
        match (spared, process.is_guardian) {
            (true, _) => Verdict::Spare,
            (false, true) => Verdict::Wait,
            (false, false) => Verdict::End,
        }
    }

    /// Judges a process without a readable mark: it may belong to any dead host that is not younger.
    fn judge_unseen(&self, process: &Process) -> Verdict {
        let suspects = process.pid > 1 && self.dead.iter().any(|dead| may_be_of(process, &dead.id));
        match suspects {
            true => Verdict::Doubt,
            false => Verdict::Pass,
        }
    }

    /// Judges a cgroup of the dead host `owner`. A member without a mark has dropped it; one with the
    /// mark of another host, or that a living host depends on, was moved there.
    pub(super) fn empty(&self, owner: &HostId, members: &[u32], scene: &Scene) -> Emptying {
        let is_dead = self.dead.iter().any(|dead| dead.id == *owner);
        // A member in a PID namespace that is not visible here is listed as 0.
        if !is_dead || owner.boot_id() != self.boot_id || members.contains(&0) {
            return Emptying::Nothing;
        }
        let is_theirs = |pid: &u32| {
            let process = scene.processes.get(pid);
            // A member that was not listed has ended meanwhile.
            let is_marked = process.is_none_or(|process| match &process.mark {
                Mark::Cookie(cookie) if cookie.host() == owner => true,
                // It may belong to another dead host.
                Mark::Cookie(_) => self.judge(process, scene) == Verdict::End,
                Mark::Unreadable => false,
                Mark::None | Mark::Unseen(_) | Mark::Passing => true,
            });
            let stays = process.is_some_and(|process| self.stays(process, scene));
            is_marked && !stays && *pid > 1 && !self.is_above_or_host(*pid, scene)
        };
        match members.iter().all(is_theirs) {
            true => Emptying::All,
            false => Emptying::Each,
        }
    }

    fn stays(&self, process: &Process, scene: &Scene) -> bool {
        let servers = self.dead.iter().flat_map(|dead| &dead.servers);
        scene.stays(process, servers.copied())
    }

    /// Returns whether it is the judging host, a living host, or an ancestor of one: whatever its mark,
    /// its end could end a host.
    pub(crate) fn is_above_or_host(&self, pid: u32, scene: &Scene) -> bool {
        let hosts = scene.hosts.iter().chain([&self.this_pid]);
        hosts
            .copied()
            .any(|host| scene.line(host).any(|above| above == pid))
    }

    /// Returns whether it belongs to a living host: it descends from the host and has its mark. Orphans
    /// of dead hosts can be below a host too; they have other marks.
    fn is_kept(&self, process: &Process, scene: &Scene) -> bool {
        scene.line(process.pid).skip(1).any(|above| {
            let is_host = above == self.this_pid || scene.hosts.contains(&above);
            let mark = scene.processes.get(&above).map(|process| &process.mark);
            is_host
                && match (mark, &process.mark) {
                    (Some(Mark::Cookie(host)), Mark::Cookie(own)) => host.host() == own.host(),
                    (None | Some(Mark::None | Mark::Unreadable), _) => false,
                    _ => true,
                }
        })
    }
}

/// Returns whether this process without a readable mark may be that host's.
pub(super) fn may_be_of(process: &Process, host: &HostId) -> bool {
    process.start_time == 0 || process.start_time >= host.start_time()
}

impl Scene {
    pub(super) fn line(&self, pid: u32) -> impl Iterator<Item = u32> {
        let above = |pid: &u32| {
            let parent = self.processes.get(pid)?.parent;
            (parent > 0).then_some(parent)
        };
        // A table that was read while it changed may contain cycles.
        std::iter::successors(Some(pid), above).take(self.processes.len() + 1)
    }

    /// Returns whether a process, or one of its ancestors, is kept when its server ends. One of these
    /// `servers`, by pid and start time, never is, whatever its name.
    pub(super) fn stays(
        &self,
        process: &Process,
        servers: impl Iterator<Item = (u32, u64)> + Clone,
    ) -> bool {
        let is_a_server = |it: &Process| {
            let mut servers = servers.clone();
            servers.any(|server| server == (it.pid, it.start_time))
        };
        !is_a_server(process)
            && self.line(process.pid).any(|pid| {
                let above = self.processes.get(&pid);
                above.is_some_and(|it| it.stays && it.mark == process.mark && !is_a_server(it))
            })
    }

    /// Returns the server of a process by its mark or, without one, by the nearest guardian above it.
    pub(super) fn server_of<'a>(&'a self, process: &'a Process) -> Option<&'a Cookie> {
        if let Mark::Cookie(own) = &process.mark {
            return Some(own);
        }
        let mut above = self.line(process.pid).skip(1);
        let guardian = above.find_map(|pid| self.processes.get(&pid).filter(|it| it.is_guardian));
        match &guardian?.mark {
            Mark::Cookie(cookie) => Some(cookie),
            _ => None,
        }
    }
}

#[cfg(test)]
#[path = "verdict/tests.rs"]
mod tests;
