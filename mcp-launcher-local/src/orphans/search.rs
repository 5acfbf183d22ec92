//! One search for orphans: looks, and acts on what was decided.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use mcp_lifecycle_core::launch::{ReapReport, Remnant, UnknownRemnant};

use super::processes::{self, LivingHost};
use super::settle::LeafState;
use super::verdict::{Emptying, Hosts, Mark, Process, Verdict};
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
    /// As of the last look: who could not be looked at.
    pub(super) doubts: Vec<Process>,
}

impl<'a> Search<'a> {
    pub(super) fn new(hosts: &'a Hosts<'a>, living: &'a [LivingHost], limit: Duration) -> Self {
        Self {
            hosts,
            living,
            deadline: Instant::now() + limit,
            found: BTreeMap::new(),
            doubts: Vec::new(),
        }
    }

    /// Empties and removes the cgroup of a dead host's server.
    pub(super) fn empty(&mut self, owner: &HostId, path: PathBuf) -> LeafState {
        let unseen = |error: io::Error| {
            LeafState::Unseen(format!("its cgroup cannot be looked into: {error}"))
        };
        let leaf = match Leaf::adopt(path) {
            Ok(leaf) => leaf,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return LeafState::Gone,
            Err(error) => return unseen(error),
        };
        let looked = leaf
            .members()
            .and_then(|members| Ok((members, processes::look(self.living)?)));
        let (members, scene) = match looked {
            Ok(looked) => looked,
            Err(error) => {
                leaf.abandon();
                return unseen(error);
            }
        };
        let inside = members.iter().filter_map(|pid| scene.processes.get(pid));
        match self.hosts.empty(owner, &members, &scene) {
            Emptying::All => self.empty_at_once(leaf, inside.cloned().collect()),
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
                LeafState::Occupied
            }
            Emptying::Nothing => {
                leaf.abandon();
                let why = "somebody in its cgroup is in a PID namespace that is not visible here";
                LeafState::Unseen(why.to_owned())
            }
        }
    }

    fn empty_at_once(&mut self, leaf: Leaf, inside: Vec<Process>) -> LeafState {
        let (tell, told) = mpsc::channel();
        leaf.end(move |result| {
            let _ = tell.send(result);
        });
        let ended = matches!(told.recv_timeout(self.left()), Ok(Ok(())));
        let (state, outcome) = match ended {
            true => (LeafState::Gone, Outcome::Ended),
            false => (LeafState::Occupied, Outcome::Failed),
        };
        for process in inside {
            self.note(process, outcome.clone());
        }
        state
    }

    /// Ends whoever is marked as a dead host's, and whom they start meanwhile.
    ///
    /// # Errors
    ///
    /// In words, why it cannot be told that nobody is left.
    pub(super) fn end_marked(&mut self) -> Result<(), String> {
        let mut clean = 0;
        while clean < CLEAN_LOOKS {
            if Instant::now() >= self.deadline {
                return Err("the search ran out of time".to_owned());
            }
            let scene = processes::look(self.living)
                .map_err(|error| format!("processes cannot be listed: {error}"))?;
            clean += 1;
            self.doubts.clear();
            let mut ending = Vec::new();
            for process in scene.processes.values() {
                let verdict = self.hosts.judge(process, &scene);
                match verdict {
                    Verdict::End | Verdict::Wait if self.was_tried(process) => {}
                    Verdict::End | Verdict::Wait => {
                        clean = 0;
                        match act(process, verdict) {
                            Ok(held) => ending.extend(held),
                            // When those who are held have ended there is room.
                            Err(_) if !ending.is_empty() => break,
                            Err(why) => self.note(process.clone(), why),
                        }
                        if ending.len() == HELD {
                            break;
                        }
                    }
                    Verdict::Spare => self.note(process.clone(), Outcome::Spared),
                    Verdict::Doubt => self.doubts.push(process.clone()),
                    Verdict::Pass => {}
                }
            }
            self.wait_for(ending);
            if self
                .doubts
                .iter()
                .any(|process| process.mark == Mark::Passing)
            {
                clean = 0;
                thread::sleep(PAUSE.min(self.left()));
            }
        }
        Ok(())
    }

    /// Trying again at once would be no use.
    fn was_tried(&self, process: &Process) -> bool {
        let known = self.found.get(&key(process));
        known.is_some_and(|(outcome, _)| matches!(outcome, Outcome::Failed | Outcome::Unknown(_)))
    }

    /// Waits until they are dead, each told by its pidfd.
    fn wait_for(&mut self, ending: Vec<(Process, OwnedFd)>) {
        for (process, pidfd) in ending {
            match sys::ends_within(pidfd.as_fd(), self.left()).unwrap_or(false) {
                // A guardian does not count as an orphan: it was leaving.
                true if process.is_guardian => {}
                true => self.note(process, Outcome::Ended),
                false => self.note(process, Outcome::Failed),
            }
        }
    }

    /// Whether somebody with a mark of that host was left alive.
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

/// Kills a process, or only waits for it; `None` if it has gone.
///
/// It is taken hold of first, and only then made sure that it is the one that
/// was judged: the number can have come to mean another one.
fn act(process: &Process, verdict: Verdict) -> Result<Option<(Process, OwnedFd)>, Outcome> {
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
        tracing::warn!(pid = process.pid, %error, "an orphan cannot be ended");
        return Err(Outcome::Failed);
    }
    Ok(Some((process.clone(), pidfd)))
}

/// A guardian that somebody has stopped does not get on with its work.
fn wake(guardian: &Process, pidfd: &OwnedFd) {
    let is_stopped = |stat: Option<Stat>| stat.is_some_and(|stat| stat.is_stopped());
    if Stat::read(guardian.pid).is_ok_and(is_stopped)
        && let Err(error) = sys::continue_held(pidfd)
    {
        tracing::debug!(pid = guardian.pid, %error, "a stopped guardian cannot be woken");
    }
}
