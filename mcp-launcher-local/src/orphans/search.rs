//! One search for orphans: looks, and acts on what was decided.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use mcp_lifecycle_core::launch::{ReapReport, Remnant, UnknownRemnant};

use super::processes::{self, LivingHost};
use super::settle::LeafState;
use super::verdict::{Emptying, Hosts, Mark, Process, Scene, Verdict};
use crate::cgroup::Leaf;
use crate::identity::HostId;
use crate::sys::stat::Stat;
use crate::sys::{self, Pid};

/// A look that finds nobody may have been between a parent and its child: this
/// many in a row are believed.
const CLEAN_LOOKS: u32 = 2;

/// So many processes are held at a time, each by a descriptor.
const HELD: usize = 64;

/// Between two looks at a process that is just being executed.
const PAUSE: Duration = Duration::from_millis(2);

/// How long a look that has ended somebody waits for it before the next one: far
/// more than an end takes, unless nothing ends it.
const BRIEFLY: Duration = Duration::from_millis(100);

/// Between two looks at those whom nothing ends.
const SLOWLY: Duration = Duration::from_secs(1);

/// What became of a process; what is greater is the last word.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Spared,
    Unknown(String),
    Failed,
    Ended,
}

/// One search.
pub(super) struct Search<'a> {
    hosts: &'a Hosts<'a>,
    living: &'a [LivingHost],
    deadline: Instant,
    found: BTreeMap<(u32, u64), (Outcome, Process)>,
    /// Those who were sent SIGKILL, and guardians at their work, until they are seen
    /// to have ended.
    ending: BTreeMap<(u32, u64), Process>,
    /// As of the last look: who could not be looked at.
    pub(super) doubts: Vec<Process>,
}

/// The cgroup of a dead host's server, after everybody inside was sent SIGKILL.
pub(super) struct Killed {
    leaf: Leaf,
    inside: Vec<Process>,
}

impl<'a> Search<'a> {
    pub(super) fn new(hosts: &'a Hosts<'a>, living: &'a [LivingHost], limit: Duration) -> Self {
        Self {
            hosts,
            living,
            deadline: Instant::now() + limit,
            found: BTreeMap::new(),
            ending: BTreeMap::new(),
            doubts: Vec::new(),
        }
    }

    /// Sends SIGKILL to everybody in the cgroup of a dead host's server, and waits for
    /// nobody: one that nothing ends must not keep others from being ended.
    ///
    /// # Errors
    ///
    /// There is nothing to be waited for: what is known of the cgroup already.
    pub(super) fn kill_inside(
        &mut self,
        owner: &HostId,
        path: PathBuf,
    ) -> Result<Killed, LeafState> {
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
                    sys::shielded(|| {
                        tracing::warn!(%error, "the cgroup of an orphan cannot be killed");
                    });
                }
                let inside = inside.cloned().collect();
                Ok(Killed { leaf, inside })
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
                let why = "somebody in its cgroup is in a PID namespace that is not visible here";
                Err(LeafState::Unseen(why.to_owned()))
            }
        }
    }

    /// Waits for the end of those inside, and removes the cgroup.
    pub(super) fn remove(&mut self, Killed { leaf, inside }: Killed) -> LeafState {
        let removed = leaf.remove_within(self.left());
        if let Err(error) = &removed {
            sys::shielded(|| {
                tracing::debug!(%error, "the cgroup of an orphan cannot be removed");
            });
        }
        // Whoever comes next removes it.
        leaf.abandon();
        let is_gone = removed.unwrap_or(false);
        for process in inside {
            let outcome = match is_gone || !may_live(&process) {
                true => Outcome::Ended,
                false => Outcome::Failed,
            };
            self.note(process, outcome);
        }
        match is_gone {
            true => LeafState::Gone,
            false => LeafState::Occupied,
        }
    }

    /// Ends whoever is marked as a dead host's, and whom they start meanwhile: all
    /// are sent SIGKILL first, and then waited for together.
    ///
    /// # Errors
    ///
    /// In words, why it cannot be told that nobody is left.
    pub(super) fn end_marked(&mut self) -> Result<(), String> {
        let looked = self.kill_marked();
        for process in std::mem::take(&mut self.ending).into_values() {
            match may_live(&process) {
                true => self.note(process, Outcome::Failed),
                false => self.note_end(process),
            }
        }
        looked
    }

    fn kill_marked(&mut self) -> Result<(), String> {
        let mut held = Vec::new();
        let mut clean = 0;
        loop {
            let scene = processes::look(self.living)
                .map_err(|error| format!("processes cannot be listed: {error}"))?;
            self.see_ends(&scene);
            self.doubts.clear();
            clean += 1;
            for process in scene.processes.values() {
                let is_known = self.ending.contains_key(&key(process)) || self.was_tried(process);
                let verdict = self.hosts.judge(process, &scene);
                match verdict {
                    Verdict::End | Verdict::Wait | Verdict::Doubt if is_known => {}
                    Verdict::End | Verdict::Wait => {
                        clean = 0;
                        match act(process, verdict) {
                            Ok(None) => {}
                            Ok(Some(pidfd)) => {
                                self.ending.insert(key(process), process.clone());
                                held.push(pidfd);
                                held.truncate(HELD);
                            }
                            // Without those who are held there is room.
                            Err(_) if !held.is_empty() => {
                                held.clear();
                                break;
                            }
                            Err(why) => self.note(process.clone(), why),
                        }
                    }
                    Verdict::Spare => self.note(process.clone(), Outcome::Spared),
                    Verdict::Doubt => {
                        if process.mark == Mark::Passing {
                            clean = 0;
                        }
                        self.doubts.push(process.clone());
                    }
                    Verdict::Pass => {}
                }
            }
            let is_clean = clean >= CLEAN_LOOKS;
            match self.left() {
                _ if is_clean && self.ending.is_empty() => return Ok(()),
                Duration::ZERO if is_clean => return Ok(()),
                Duration::ZERO => return Err("the search ran out of time".to_owned()),
                left if is_clean => {
                    self.hold_some(&mut held);
                    sys::end_within(&mut held, SLOWLY.min(left));
                }
                left if clean == 0 && !held.is_empty() => {
                    sys::end_within(&mut held, BRIEFLY.min(left));
                }
                left if clean == 0 => thread::sleep(PAUSE.min(left)),
                _ => {}
            }
        }
    }

    /// Trying again at once would be no use.
    fn was_tried(&self, process: &Process) -> bool {
        let known = self.found.get(&key(process));
        known.is_some_and(|(outcome, _)| matches!(outcome, Outcome::Failed | Outcome::Unknown(_)))
    }

    /// Holds those who are to end, to be told when they have.
    fn hold_some(&self, held: &mut Vec<OwnedFd>) {
        if held.is_empty() {
            let pids = self
                .ending
                .keys()
                .filter_map(|(pid, _)| Pid::new((*pid).into()));
            held.extend(pids.filter_map(|pid| sys::hold(pid).ok()).take(HELD));
        }
    }

    /// Takes note of those who are not there any more.
    fn see_ends(&mut self, scene: &Scene) {
        let lives = |(pid, start_time): &(u32, u64)| {
            let process = scene.processes.get(pid);
            // One of which nothing could be read has no start time.
            process.is_some_and(|now| [0, *start_time].contains(&now.start_time))
        };
        let (ending, ended): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut self.ending)
            .into_iter()
            .partition(|(key, _)| lives(key));
        self.ending = ending;
        ended
            .into_values()
            .for_each(|process| self.note_end(process));
    }

    fn note_end(&mut self, process: Process) {
        // A guardian does not count as an orphan: it was leaving.
        if !process.is_guardian {
            self.note(process, Outcome::Ended);
        }
    }

    /// Returns whether somebody with a mark of that host was left alive.
    pub(super) fn has_left(&self, host: &HostId) -> bool {
        self.found.values().any(|(outcome, process)| {
            let is_theirs = matches!(&process.mark, Mark::Cookie(cookie) if cookie.host() == host);
            is_theirs && *outcome != Outcome::Ended
        })
    }

    /// Says that a process could not be looked at.
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

    pub(super) fn finish(self, report: &mut ReapReport) {
        for (outcome, process) in self.found.into_values() {
            let remnant = Remnant::process(process.pid, process.name);
            match outcome {
                Outcome::Ended => report.ended.push(remnant),
                Outcome::Failed => report.failed.push(remnant),
                Outcome::Spared => report.spared.push(remnant),
                Outcome::Unknown(why) => report.unknown.push(UnknownRemnant::new(remnant, why)),
            }
        }
    }
}

fn key(process: &Process) -> (u32, u64) {
    (process.pid, process.start_time)
}

/// Returns whether it is still there, as far as can be told.
fn may_live(process: &Process) -> bool {
    let is_it = |stat: Stat| stat.start_time == process.start_time && !stat.is_dead();
    Stat::read(process.pid).map_or(true, |stat| stat.is_some_and(is_it))
}

/// Kills a process, or wakes a guardian; `None` if it has gone.
///
/// It is taken hold of first, and only then made sure that it is the one that
/// was judged: the number can have come to mean another one.
fn act(process: &Process, verdict: Verdict) -> Result<Option<OwnedFd>, Outcome> {
    let unheld = |error| Outcome::Unknown(format!("an orphan that cannot be held: {error}"));
    let Some(pid) = Pid::new(process.pid.into()) else {
        return Ok(None);
    };
    let pidfd = match sys::hold(pid) {
        Ok(pidfd) => pidfd,
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
        Err(error) => return Err(unheld(error)),
    };
    let Some(now) = processes::read(process.pid) else {
        return Ok(None);
    };
    if let Mark::Unseen(why) = now.mark {
        return Err(Outcome::Unknown(why));
    }
    if now.start_time != process.start_time || now.mark != process.mark {
        return Ok(None);
    }
    if verdict == Verdict::Wait {
        wake(process, &pidfd);
    } else if let Err(error) = sys::kill_held(&pidfd) {
        if error.raw_os_error() == Some(libc::ESRCH) {
            return Ok(None);
        }
        let pid = process.pid;
        sys::shielded(|| tracing::warn!(pid, %error, "an orphan cannot be ended"));
        return Err(Outcome::Failed);
    }
    Ok(Some(pidfd))
}

/// A guardian that somebody has stopped does not get on with its work.
fn wake(guardian: &Process, pidfd: &OwnedFd) {
    let is_stopped = |stat: Option<Stat>| stat.is_some_and(|stat| stat.is_stopped());
    if Stat::read(guardian.pid).is_ok_and(is_stopped)
        && let Err(error) = sys::continue_held(pidfd)
    {
        let pid = guardian.pid;
        sys::shielded(|| tracing::debug!(pid, %error, "a stopped guardian cannot be woken"));
    }
}
