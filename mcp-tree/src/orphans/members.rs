//! Finds the processes that belong to a server now.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Instant;

use super::hunt::{Judge, Look, Signalled};
use super::known::KnownServer;
use super::verdict::{Mark, Process, Scene, may_be_of};
use super::{processes, visibility};
use crate::cgroup::Leaf;
use crate::patience::Patience;
use crate::sys;

const DEPTH: usize = 1024;

pub(super) const HIDDEN: &str =
    "a process in its cgroup is in a PID namespace that is not visible here";

/// Returns the pids of the members of its cgroup; none if the cgroup is gone. A member that is not
/// visible here is listed as 0.
fn inside(server: &KnownServer) -> io::Result<Vec<u32>> {
    let leaf = match server.leaf.clone().map(Leaf::adopt) {
        None => return Ok(Vec::new()),
        Some(Err(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Some(leaf) => leaf?,
    };
    let members = leaf.members();
    leaf.abandon();
    members
}

/// Finds the processes of a server in this snapshot and in its cgroup, without its guardian, and
/// reasons why there may be more.
pub(super) fn theirs(server: &KnownServer, scene: &Scene) -> (BTreeMap<u32, Process>, Vec<String>) {
    let all = scene.processes.values().filter(|it| !it.is_guardian);
    let theirs = all.filter(|it| is_of(server, it, scene));
    let mut found: BTreeMap<_, _> = theirs.map(|it| (it.pid, it.clone())).collect();
    let mut reasons = Vec::new();
    match inside(server) {
        Ok(inside) => {
            for pid in inside {
                if pid == 0 {
                    reasons.push(HIDDEN.to_owned());
                } else if !found.contains_key(&pid) && !processes::is_guardian(pid) {
                    found.extend(processes::read(pid).map(|it| (pid, it)));
                }
            }
        }
        Err(error) => reasons.push(format!("its cgroup cannot be looked into: {error}")),
    }
    (found, reasons)
}

#[derive(Debug)]
pub(super) struct Roster<'a> {
    server: &'a KnownServer,
    /// The processes that were not below the guardian while it lived, by pid and start time: none of
    /// them is the server's. `None` if the guardian was never seen.
    strangers: Option<BTreeSet<(u32, u64)>>,
}

impl<'a> Roster<'a> {
    pub(super) fn of(server: &'a KnownServer) -> Self {
        Self {
            server,
            strangers: None,
        }
    }

    /// Returns why a process without a readable mark may be the server's, if one may. While its guardian
    /// lives, all its processes are below that; where it has a cgroup, they are inside.
    fn doubt(&mut self, scene: &mut Scene, end: Instant) -> Option<String> {
        let is_guard = |it: &&Process| {
            it.is_guardian && matches!(&it.mark, Mark::Cookie(mark) if *mark == self.server.cookie)
        };
        if scene.processes.values().any(|it| is_guard(&it)) {
            let all = scene.processes.values();
            let strangers = all.filter(|it| !is_of(self.server, it, scene));
            let strangers = strangers.map(|it| (it.pid, it.start_time)).collect();
            self.strangers = Some(strangers);
            return None;
        }
        if self.server.in_cgroup {
            return None;
        }
        let is_known = |it: &Process| {
            let key = (it.pid, it.start_time);
            self.strangers
                .as_ref()
                .is_some_and(|all| all.contains(&key))
        };
        let says_nothing = |it: &Process| {
            matches!(it.mark, Mark::Unseen(_) | Mark::Passing)
                && it.pid > 1
                && may_be_of(it, self.server.cookie.host())
        };
        let all = scene.processes.values();
        let suspects =
            all.filter(|it| says_nothing(it) && !is_known(it) && scene.server_of(it).is_none());
        let suspects: Vec<u32> = suspects.map(|it| it.pid).collect();
        let mut patience = Patience::until(end);
        for pid in suspects {
            let mut now = processes::read(pid);
            while now.as_ref().is_some_and(|now| now.mark == Mark::Passing)
                && patience.lasts_beside([pid])
            {
                now = processes::read(pid);
            }
            match now {
                None => drop(scene.processes.remove(&pid)),
                Some(now) => drop(scene.processes.insert(pid, now)),
            }
        }
        let mut all = scene.processes.values();
        let left = all.find(|it| {
            says_nothing(it)
                && !is_known(it)
                && !is_of(self.server, it, scene)
                && scene.server_of(it).is_none()
        });
        let hides = || {
            visibility::shows_all()
                .err()
                .filter(|_| self.strangers.is_none())
        };
        match left {
            Some(left) => Some(format!(
                "process {} ({}) may belong to it: {}",
                left.pid,
                left.name,
                left.mark.reason()
            )),
            None => hides().map(|error| error.to_string()),
        }
    }

    fn has(&self, process: &Process) -> bool {
        // The nearest guardian decides.
        let parent = |it: &Process| match it.is_guardian {
            true => None,
            false => processes::read(it.parent).filter(|above| above.pid > 1),
        };
        let line = std::iter::successors(Some(process.clone()), parent).take(DEPTH);
        let scene = Scene {
            processes: line.map(|it| (it.pid, it)).collect(),
            ..Scene::default()
        };
        is_of(self.server, process, &scene)
            || inside(self.server).is_ok_and(|inside| inside.contains(&process.pid))
    }
}

impl Judge for Roster<'_> {
    /// Finds all processes that carry the server's identity, descend from its guardian or its main
    /// process, or are in its cgroup. Waits for processes in `execve` only while none is known that
    /// can be ended.
    fn look(&mut self, _signalled: &Signalled, end: Instant) -> Look {
        let mut reasons = Vec::new();
        let mut scene = processes::look(&[]).unwrap_or_else(|error| {
            reasons.push(error.to_string());
            Scene::default()
        });
        let mut all = scene.processes.values();
        let has_some = all.any(|it| !it.is_guardian && is_of(self.server, it, &scene));
        let end = if has_some { Instant::now() } else { end };
        if reasons.is_empty() {
            reasons.extend(self.doubt(&mut scene, end));
        }
        let (found, more) = theirs(self.server, &scene);
        reasons.extend(more);
        let unread = found.values().find(|it| it.start_time == 0);
        reasons.extend(unread.map(|it| format!("process {} cannot be examined", it.pid)));
        Look {
            found: found.into_values().collect(),
            unsettled: reasons.into_iter().next(),
        }
    }

    fn is_still(&self, process: &Process) -> io::Result<bool> {
        let now = processes::read(process.pid).filter(|_| is_unchanged(process));
        Ok(now.is_some_and(|now| self.has(&now)))
    }
}

pub(super) fn is_unchanged(process: &Process) -> bool {
    sys::see(process.pid).is_some_and(|now| now.start_time == process.start_time)
}

/// Returns whether it is the server's, by its mark or else by its ancestors.
fn is_of(server: &KnownServer, process: &Process, scene: &Scene) -> bool {
    match scene.server_of(process) {
        Some(mark) => *mark == server.cookie,
        None => scene.line(process.pid).any(|above| {
            let above = scene.processes.get(&above);
            above.is_some_and(|above| server.recorded == Some((above.pid, above.start_time)))
        }),
    }
}
