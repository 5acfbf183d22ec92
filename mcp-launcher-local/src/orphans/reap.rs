//! Ends what dead hosts left.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use mcp_lifecycle_core::{ReapReport, Remnant};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::directory;
use super::processes;
use super::shelf::{self, Dead, Found};
use super::verdict::{Hosts, Mark, Process, Verdict};
use crate::cgroup::{self, Leaf};
use crate::identity::{self, HostId};
use crate::sys::{self, Pid};

/// How long all of it may take. Killed processes are gone within milliseconds;
/// this is for those that nothing ends.
const LIMIT: Duration = Duration::from_secs(10);

/// A look that finds nobody may have been between a parent and its child: this
/// many in a row are believed.
const CLEAN_LOOKS: u32 = 2;

/// Finds and ends it. Blocks; at most a little longer than [`LIMIT`].
pub(crate) fn reap() -> io::Result<ReapReport> {
    let Some(boot_id) = sys::boot_id() else {
        return Ok(ReapReport::new());
    };
    let mut round = Round {
        deadline: Instant::now() + LIMIT,
        report: ReapReport::new(),
        ended: BTreeMap::new(),
        failed: BTreeMap::new(),
        spared: BTreeMap::new(),
    };
    let shelves = Shelves::look(&mut round.report);
    let dead: Vec<HostId> = shelves
        .dead()
        .map(|dead| dead.contents.host.clone())
        .collect();
    let own_line = processes::own_line();
    let hosts = Hosts {
        this: identity::this_host(),
        boot_id: &boot_id,
        dead: &dead,
        living: &shelves.living,
        own_line: &own_line,
    };
    let mut unsettled = BTreeSet::new();
    for (index, dead) in shelves.dead().enumerate() {
        if !round.empty_cgroups(&hosts, dead) {
            unsettled.insert(index);
        }
    }
    round.end_marked(&hosts)?;
    // Kept until everything is settled: who comes next tries again.
    let settled = round.failed.is_empty();
    for (index, shelved) in shelves.shelved.iter().enumerate() {
        if settled && !unsettled.contains(&index) {
            shelf::remove(&shelved.directory, &shelved.name);
        }
    }
    Ok(round.finish())
}

/// What all directories hold.
#[derive(Default)]
struct Shelves {
    shelved: Vec<Shelved>,
    living: Vec<HostId>,
}

/// The ledger of a dead host, locked, and where it is.
struct Shelved {
    directory: OwnedFd,
    name: OsString,
    dead: Dead,
}

impl Shelves {
    fn look(report: &mut ReapReport) -> Self {
        let mut shelves = Self::default();
        for path in directory::candidates() {
            // Missing, or somebody else's: nothing in it concerns us.
            let Ok(directory) = directory::open_own(&path) else {
                continue;
            };
            for name in directory::names(&directory).unwrap_or_default() {
                match shelf::look(&directory, &name) {
                    Ok(Found::Dead(dead)) => match directory.try_clone() {
                        Ok(directory) => shelves.shelved.push(Shelved {
                            directory,
                            name,
                            dead,
                        }),
                        Err(error) => tracing::debug!(%error, "a ledger is left for later"),
                    },
                    Ok(Found::Living(contents)) => {
                        shelves
                            .living
                            .extend(contents.map(|contents| contents.host));
                    }
                    Ok(Found::Unusable) if shelf::is_new(&name) => {
                        shelf::remove(&directory, &name);
                    }
                    Ok(Found::Unusable) => report.spared.push(unusable(&name)),
                    Err(error) => tracing::debug!(%error, "a ledger cannot be opened"),
                }
            }
        }
        shelves
    }

    fn dead(&self) -> impl Iterator<Item = &Dead> {
        self.shelved.iter().map(|shelved| &shelved.dead)
    }
}

/// What stands for the servers of a ledger that says nothing.
fn unusable(name: &OsString) -> Remnant {
    let mut remnant = Remnant::process(0, "whatever its servers are: not a ledger of ours");
    remnant.id = name.to_string_lossy().into_owned();
    remnant
}

/// One search.
struct Round {
    deadline: Instant,
    report: ReapReport,
    ended: BTreeMap<(u32, u64), Remnant>,
    failed: BTreeMap<(u32, u64), Remnant>,
    spared: BTreeMap<(u32, u64), Remnant>,
}

impl Round {
    /// Empties and removes the cgroups of a dead host's servers. Says whether
    /// none is left.
    fn empty_cgroups(&mut self, hosts: &Hosts<'_>, dead: &Dead) -> bool {
        let contents = &dead.contents;
        let Some(parent) = &contents.cgroups else {
            return true;
        };
        let in_cgroups = contents.servers.iter().filter(|server| server.in_cgroup);
        let paths = in_cgroups.map(|server| parent.join(cgroup::name(&contents.cookie(*server))));
        let mut all = true;
        for path in paths {
            all &= self.empty_cgroup(hosts, &contents.host, path);
        }
        all
    }

    fn empty_cgroup(&mut self, hosts: &Hosts<'_>, owner: &HostId, path: PathBuf) -> bool {
        let leaf = match Leaf::adopt(path) {
            Ok(leaf) => leaf,
            Err(error) => return error.kind() == io::ErrorKind::NotFound,
        };
        let Ok(pids) = leaf.members() else {
            leaf.abandon();
            return false;
        };
        let members: Vec<_> = pids
            .into_iter()
            .map(|pid| (pid, processes::read(pid)))
            .collect();
        let marks = members
            .iter()
            .map(|(pid, process)| (*pid, process.as_ref().map(|process| &process.mark)));
        if !hosts.may_empty(owner, marks) {
            for (pid, process) in members {
                let start_time = sys::start_time_of(pid).unwrap_or_default();
                let name = process.map(|process| process.name).unwrap_or_default();
                self.spared
                    .insert((pid, start_time), Remnant::process(pid, name));
            }
            leaf.abandon();
            return false;
        }
        let names: Vec<_> = members
            .iter()
            .filter_map(|(pid, _)| Some((*pid, sys::start_time_of(*pid)?, sys::name_of(*pid)?)))
            .collect();
        let (tell, told) = mpsc::channel();
        leaf.end(move |result| {
            let _ = tell.send(result);
        });
        let ended = matches!(told.recv_timeout(self.left()), Ok(Ok(())));
        let into = if ended {
            &mut self.ended
        } else {
            &mut self.failed
        };
        for (pid, start_time, name) in names {
            into.insert((pid, start_time), Remnant::process(pid, name));
        }
        ended
    }

    /// Ends whoever is marked as a dead host's, and whom they start meanwhile.
    fn end_marked(&mut self, hosts: &Hosts<'_>) -> io::Result<()> {
        let mut clean = 0;
        while clean < CLEAN_LOOKS && Instant::now() < self.deadline {
            let mut ending = Vec::new();
            for process in processes::marked()? {
                match hosts.judge(&process) {
                    Verdict::End => ending.extend(self.end(process)),
                    Verdict::Wait => ending.extend(hold(process)),
                    Verdict::Spare => {
                        let remnant = Remnant::process(process.pid, process.name);
                        self.spared
                            .insert((process.pid, process.start_time), remnant);
                    }
                    Verdict::Own => {}
                }
            }
            ending.retain(|(process, _)| !self.failed.contains_key(&key(process)));
            clean = if ending.is_empty() { clean + 1 } else { 0 };
            self.wait_for(ending);
        }
        Ok(())
    }

    /// Kills a process that is still who it was when it was judged.
    fn end(&mut self, process: Process) -> Option<(Process, OwnedFd)> {
        let (process, pidfd) = hold(process)?;
        match sys::kill_held(&pidfd) {
            Ok(()) => Some((process, pidfd)),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => None,
            Err(error) => {
                tracing::warn!(pid = process.pid, %error, "an orphan cannot be ended");
                let remnant = Remnant::process(process.pid, process.name.clone());
                self.failed.insert(key(&process), remnant);
                None
            }
        }
    }

    /// Waits until they are dead, each told by its pidfd.
    fn wait_for(&mut self, ending: Vec<(Process, OwnedFd)>) {
        for (process, pidfd) in ending {
            let remnant = Remnant::process(process.pid, process.name.clone());
            let into = match exits(&pidfd, self.left()) {
                // A guardian does not count as an orphan: it was leaving.
                true if process.is_guardian => continue,
                true => &mut self.ended,
                false => &mut self.failed,
            };
            into.insert(key(&process), remnant);
        }
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    fn finish(mut self) -> ReapReport {
        self.failed.retain(|who, _| !self.ended.contains_key(who));
        self.report.ended.extend(self.ended.into_values());
        self.report.failed.extend(self.failed.into_values());
        self.report.spared.extend(self.spared.into_values());
        self.report
    }
}

fn key(process: &Process) -> (u32, u64) {
    (process.pid, process.start_time)
}

/// Takes hold of a process, and only then makes sure that it is the one that
/// was judged: the number can have come to mean another one.
fn hold(process: Process) -> Option<(Process, OwnedFd)> {
    let pidfd = sys::hold(Pid::new(process.pid.into())?).ok()?;
    let now = processes::read(process.pid)?;
    let is_same = now.start_time == process.start_time && same_mark(&now.mark, &process.mark);
    is_same.then_some((process, pidfd))
}

fn same_mark(now: &Mark, then: &Mark) -> bool {
    matches!((now, then), (Mark::Cookie(now), Mark::Cookie(then)) if now == then)
}

fn exits(pidfd: &OwnedFd, limit: Duration) -> bool {
    let end = Instant::now() + limit;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)], left) {
            Err(Errno::EINTR) => {}
            Ok(ready) => return ready > 0,
            Err(_) => return false,
        }
    }
}
