//! One search for orphans: finds them, ends them by a [`hunt`], and keeps account.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::format::Contents;
use super::hunt::{Judge, Look, Signalled, hunt, is_among, key};
use super::members::HIDDEN;
use super::processes;
use super::settle::LeafState;
use super::verdict::{Emptying, Hosts, Mark, Process, Scene, Verdict};
use crate::cgroup::Leaf;
use crate::identity::HostId;
use crate::sys;
use crate::sys::ProcessState::{Stopped, Traced};
use mcp_lifecycle_core::launch::{ReapReport, Remnant, UnknownRemnant};

/// The result for a process. A greater one replaces a smaller one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Spared,
    Unknown(String),
    Failed,
    Ended,
}

/// How a process that was found is treated, while it is held.
pub(super) type Means = fn(&Process, &OwnedFd) -> io::Result<()>;

pub(super) struct Search<'a> {
    hosts: &'a Hosts<'a>,
    living: &'a [Contents],
    means: Means,
    deadline: Instant,
    found: BTreeMap<(u32, u64), (Outcome, Process)>,
    /// The members of killed cgroups.
    killed: Vec<Process>,
    /// The processes that the last look could not examine.
    pub(super) unproven: Vec<Process>,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        hosts: &'a Hosts<'a>,
        living: &'a [Contents],
        means: Means,
        limit: Duration,
    ) -> Self {
        Self {
            hosts,
            living,
            means,
            deadline: Instant::now() + limit,
            found: BTreeMap::new(),
            killed: Vec::new(),
            unproven: Vec::new(),
        }
    }

    /// Sends SIGKILL to all members of the cgroup of a dead host's server, without waiting. Returns the
    /// state of the cgroup where nothing was killed.
    pub(super) fn kill_inside(&mut self, owner: &HostId, path: PathBuf) -> Result<Leaf, LeafState> {
        let unseen = |error: io::Error| {
            LeafState::Unseen(format!("its cgroup cannot be looked into: {error}"))
        };
        let leaf = match Leaf::adopt(path) {
            Ok(leaf) => leaf,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(LeafState::Gone),
            Err(error) => return Err(unseen(error)),
        };
        let looked = leaf
            .members()
            .and_then(|members| Ok((members, processes::look(self.living)?)));
        let (members, scene) = match looked {
            Ok(looked) => looked,
            Err(error) => {
                leaf.abandon();
                return Err(unseen(error));
            }
        };
        let inside = members.iter().filter_map(|pid| scene.processes.get(pid));
        match self.hosts.empty(owner, &members, &scene) {
            Emptying::All => {
                if let Err(error) = leaf.kill() {
                    crate::logged!(warn, %error, "the cgroup of an orphan cannot be killed");
                }
                self.killed.extend(inside.cloned());
                Ok(leaf)
            }
            Emptying::Each => {
                leaf.abandon();
                // The others are found by their marks.
                for process in inside {
                    match self.hosts.judge(process, &scene) {
                        Verdict::End | Verdict::Wait => {}
                        Verdict::Spare | Verdict::Doubt | Verdict::Pass => {
                            self.note(process.clone(), Outcome::Spared);
                        }
                    }
                }
                Err(LeafState::Occupied)
            }
            Emptying::Nothing => {
                leaf.abandon();
                Err(LeafState::Unseen(HIDDEN.to_owned()))
            }
        }
    }

    pub(super) fn remove(&self, leaf: Leaf) -> LeafState {
        let removed = leaf.remove_within(self.left());
        if let Err(error) = &removed {
            crate::logged!(debug, %error, "the cgroup of an orphan cannot be removed");
        }
        // A later search removes it.
        leaf.abandon();
        match removed.unwrap_or(false) {
            true => LeafState::Gone,
            false => LeafState::Occupied,
        }
    }

    /// Hunts the processes that are marked as a dead host's. Fails where some may not have been found.
    pub(super) fn end_marked(&mut self) -> Result<(), String> {
        let (means, deadline) = (self.means, self.deadline);
        let trail = hunt(self, means, deadline);
        for process in trail.signalled.into_values() {
            self.note_end(process);
        }
        let ran_out = || "the search ran out of time".to_owned();
        match trail.is_complete {
            true => Ok(()),
            false => Err(trail.last.unsettled.unwrap_or_else(ran_out)),
        }
    }

    fn note_end(&mut self, process: Process) {
        match may_live(&process) {
            true => self.note(process, Outcome::Failed),
            // A guardian is no orphan: it was about to end.
            false if process.is_guardian => {}
            false => self.note(process, Outcome::Ended),
        }
    }

    fn was_refused(&self, process: &Process) -> bool {
        let known = self.found.get(&key(process));
        known.is_some_and(|(outcome, _)| matches!(outcome, Outcome::Failed | Outcome::Unknown(_)))
    }

    /// Returns whether a process with a mark of that host was left alive.
    pub(super) fn has_left(&self, host: &HostId) -> bool {
        self.found.values().any(|(outcome, process)| {
            let is_theirs = matches!(&process.mark, Mark::Cookie(cookie) if cookie.host() == host);
            is_theirs && *outcome != Outcome::Ended
        })
    }

    pub(super) fn doubt(&mut self, process: Process, why: String) {
        self.note(process, Outcome::Unknown(why));
    }

    fn note(&mut self, process: Process, outcome: Outcome) {
        let known = self.found.get(&key(&process)).map(|(outcome, _)| outcome);
        if known.is_none_or(|known| *known < outcome) {
            self.found.insert(key(&process), (outcome, process));
        }
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    pub(super) fn finish(mut self, report: &mut ReapReport) {
        let killed = std::mem::take(&mut self.killed);
        killed.into_iter().for_each(|it| self.note_end(it));
        for (outcome, process) in self.found.into_values() {
            let (pid, name) = (process.pid, process.name);
            let remnant = Remnant::process(pid, name);
            match outcome {
                Outcome::Ended => report.ended.push(remnant),
                Outcome::Failed => report.failed.push(remnant),
                Outcome::Spared => report.spared.push(remnant),
                Outcome::Unknown(why) => report.unknown.push(UnknownRemnant::new(remnant, why)),
            }
        }
    }
}

impl Judge for Search<'_> {
    fn look(&mut self, signalled: &Signalled, _end: Instant) -> Look {
        let mut look = Look::default();
        let scene = processes::look(self.living).unwrap_or_else(|error| {
            look.unsettled = Some(format!("processes cannot be listed: {error}"));
            Scene::default()
        });
        self.unproven.clear();
        for process in scene.processes.values() {
            // While it exits, its mark is not readable.
            if is_among(signalled, process) {
                look.found.push(process.clone());
                continue;
            }
            match self.hosts.judge(process, &scene) {
                Verdict::End | Verdict::Wait | Verdict::Doubt if self.was_refused(process) => {}
                Verdict::End | Verdict::Wait => look.found.push(process.clone()),
                Verdict::Spare => self.note(process.clone(), Outcome::Spared),
                Verdict::Doubt => {
                    if process.mark == Mark::Passing {
                        let why = process.mark.reason();
                        look.unsettled = Some(format!("process {}: {why}", process.pid));
                    }
                    self.unproven.push(process.clone());
                }
                Verdict::Pass => {}
            }
        }
        look
    }

    fn is_still(&self, process: &Process) -> io::Result<bool> {
        match processes::read(process.pid) {
            None => Ok(false),
            Some(Process {
                mark: Mark::Unseen(why),
                ..
            }) => Err(io::Error::other(why)),
            Some(now) => Ok(key(&now) == key(process) && now.mark == process.mark),
        }
    }

    fn refused(&mut self, process: &Process, error: io::Error) {
        let pid = process.pid;
        crate::logged!(warn, pid, %error, "an orphan cannot be ended");
        let outcome = match error.kind() {
            io::ErrorKind::PermissionDenied => Outcome::Failed,
            _ => Outcome::Unknown(format!("it cannot be ended: {error}")),
        };
        self.note(process.clone(), outcome);
    }
}

fn may_live(process: &Process) -> bool {
    let is_it = |seen: sys::Seen| seen.start_time == process.start_time && !seen.is_dead();
    sys::look_at(process.pid).map_or(true, |seen| seen.is_some_and(is_it))
}

pub(super) fn kill_or_wake(process: &Process, pidfd: &OwnedFd) -> io::Result<()> {
    if process.is_guardian {
        wake(process, pidfd);
        return Ok(());
    }
    sys::kill_held(pidfd)
}

fn wake(guardian: &Process, pidfd: &OwnedFd) {
    let is_stopped = |seen: sys::Seen| matches!(seen.state, Stopped | Traced);
    if sys::see(guardian.pid).is_some_and(is_stopped)
        && let Err(error) = sys::continue_held(pidfd)
    {
        let pid = guardian.pid;
        crate::logged!(debug, pid, %error, "a stopped guardian cannot be woken");
    }
}
