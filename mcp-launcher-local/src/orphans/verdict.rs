//! The verdict: which processes to end and which to spare. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::identity::{Cookie, HostId};

/// What a process says about whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Nothing.
    None,
    Cookie(Cookie),
    /// Something that is no identity.
    Unreadable,
    /// We could signal it, but could not read what it says, for this reason.
    Unseen(String),
    /// As [`Unseen`](Self::Unseen), because it is just being executed, or about
    /// to end: a look later will tell.
    Passing,
}

/// A process, as it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// 0 where it cannot be told.
    pub(crate) parent: u32,
    /// 0 where it cannot be told.
    pub(crate) start_time: u64,
    pub(crate) name: String,
    pub(crate) is_guardian: bool,
    /// It is to stay when its server ends: its name is one of those that it carries.
    pub(crate) stays: bool,
    /// The PID namespace it is in, where it is in the cgroup of a container.
    pub(crate) container: Option<Option<u64>>,
    pub(crate) mark: Mark,
}

/// What to do about a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// End it.
    End,
    /// It is ending what is left of its server; ending *it* would set that
    /// free. Wait.
    Wait,
    /// Leave it alone, and say so.
    Spare,
    /// It may be an orphan. Leave it alone, say so, and keep what is on record.
    Doubt,
    /// None of our business: unmarked, or a server of this host.
    Pass,
}

/// What to do about a cgroup of a dead host's server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Emptying {
    /// End whoever is inside, by the cgroup.
    All,
    /// Somebody inside is to be spared: judge each of them.
    Each,
    /// Nothing: somebody inside cannot be seen from here.
    Nothing,
}

/// A host proven dead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeadHost {
    pub(crate) id: HostId,
    /// Its PID namespace.
    pub(crate) namespace: u64,
    /// Its servers' own processes, as it has written them down: by number and start time.
    pub(crate) servers: Vec<(u32, u64)>,
}

/// What is known about hosts.
#[derive(Debug)]
pub(crate) struct Hosts<'a> {
    /// Who asks.
    pub(crate) this: Option<&'a HostId>,
    /// Its process.
    pub(crate) this_pid: u32,
    /// Which boot it is.
    pub(crate) boot_id: &'a str,
    /// Proven dead.
    pub(crate) dead: &'a [DeadHost],
}

/// Every process, as of one moment.
#[derive(Debug, Default)]
pub(crate) struct Scene {
    pub(crate) processes: BTreeMap<u32, Process>,
    /// Those of them that are living hosts.
    pub(crate) hosts: BTreeSet<u32>,
}

impl Hosts<'_> {
    /// Every doubt is a reason to spare.
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
            || is_in_a_container_of_its_own(process, dead)
            // Nobody is older than who started them.
            || process.start_time < dead.id.start_time();
        match (spared, process.is_guardian) {
            (true, _) => Verdict::Spare,
            (false, true) => Verdict::Wait,
            (false, false) => Verdict::End,
        }
    }

    /// Of one that does not say whose it is, and was started by one that is to be ended.
    #[cfg(any(target_os = "macos", test))]
    pub(crate) fn judge_linked(&self, process: &Process, scene: &Scene) -> Verdict {
        match self.is_above_or_host(process.pid, scene) || self.is_kept(process, scene) {
            true => Verdict::Spare,
            false => Verdict::End,
        }
    }

    /// It can only be the server of a host that is not younger, and not the first
    /// process.
    fn judge_unseen(&self, process: &Process) -> Verdict {
        let suspects = process.pid > 1 && self.dead.iter().any(|dead| may_be_of(process, &dead.id));
        match suspects {
            true => Verdict::Doubt,
            false => Verdict::Pass,
        }
    }

    /// Returns whether a cgroup of the dead host `owner` may be emptied with these
    /// inside. Processes without a mark have dropped it; one that is marked as
    /// somebody else's, or that a living host depends on, has no business there.
    pub(super) fn empty(&self, owner: &HostId, members: &[u32], scene: &Scene) -> Emptying {
        let is_dead = self.dead.iter().any(|dead| dead.id == *owner);
        // To whom a process of another PID namespace has the number 0.
        if !is_dead || owner.boot_id() != self.boot_id || members.contains(&0) {
            return Emptying::Nothing;
        }
        let is_theirs = |pid: &u32| {
            let process = scene.processes.get(pid);
            // One that is not there has ended meanwhile.
            let is_marked = process.is_none_or(|process| match &process.mark {
                Mark::Cookie(cookie) if cookie.host() == owner => true,
                // Of another dead host.
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

    /// Returns whether it is the one who asks or a living host, or started one of them:
    /// whatever they carry, ending them would end a host.
    pub(crate) fn is_above_or_host(&self, pid: u32, scene: &Scene) -> bool {
        let hosts = scene.hosts.iter().chain([&self.this_pid]);
        hosts
            .copied()
            .any(|host| scene.line(host).any(|above| above == pid))
    }

    /// Returns whether a living host answers for it: it is below one, and has its mark
    /// from there. Below the first process of a container, or a subreaper, is
    /// also whom a dead host has left; but not with the mark of the living one.
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

/// Returns whether this process, whose mark cannot be read, may be that host's.
pub(super) fn may_be_of(process: &Process, host: &HostId) -> bool {
    process.start_time == 0 || process.start_time >= host.start_time()
}

/// Returns whether a container engine keeps it. It was given a server's environment,
/// but ends when its engine says so.
fn is_in_a_container_of_its_own(process: &Process, host: &DeadHost) -> bool {
    let namespace = process.container;
    namespace.is_some_and(|namespace| namespace != Some(host.namespace))
}

impl Scene {
    /// A process, its parent, and so on.
    pub(super) fn line(&self, pid: u32) -> impl Iterator<Item = u32> {
        let above = |pid: &u32| {
            let parent = self.processes.get(pid)?.parent;
            (parent > 0).then_some(parent)
        };
        // A table that was read while it changed may go round in circles.
        std::iter::successors(Some(pid), above).take(self.processes.len() + 1)
    }

    /// Returns whether a process is to stay when its server ends, or is below one that is. One of these `servers`, by number and start time,
    /// never is, whatever it is called.
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

    /// The server that a process is of: by what it says, or, where it says nothing, by the nearest guardian above it.
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
