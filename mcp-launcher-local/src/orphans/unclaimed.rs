//! Processes that nobody claims: what hosts without containment leave.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use super::input;
use super::inventory::see;
use super::members::Members;
use super::processes;
use super::verdict::{Mark, Process, Scene};
use crate::inventory::{KnownProcess, Unclaimed};
use crate::sys;

/// Looks for them.
pub(crate) fn unclaimed() -> io::Result<Vec<Unclaimed>> {
    let user = nix::unistd::geteuid().as_raw();
    let is_own = |pid: u32| fs::metadata(format!("/proc/{pid}")).is_ok_and(|it| it.uid() == user);
    let scene = processes::look(&[])?;
    let is_adopter = |pid: u32| {
        let process = scene.processes.get(&pid);
        // Where there is a manager of the user's services, it adopts the user's orphans.
        pid == 1 || process.is_some_and(|it| it.name == "systemd" && it.parent == 1 && is_own(pid))
    };
    let is_left = |process: &&Process| {
        process.mark == Mark::None
            && process.pid > 1
            && is_adopter(process.parent)
            && is_own(process.pid)
            && !is_a_service(process.pid)
            // A shim carries no mark, a guardian may carry none, and both end by themselves.
            && !processes::is_guardian(process.pid)
            && input::is_abandoned(process.pid)
    };
    let left = scene.processes.values().filter(is_left);
    let with_all = left.filter_map(|process| {
        let below = scene.processes.values().filter(|it| {
            it.pid != process.pid && scene.line(it.pid).any(|above| above == process.pid)
        });
        let below: Vec<_> = below.map(|it| it.pid).collect();
        if input::may_listen(process.pid) || below.iter().copied().any(input::may_listen) {
            return None;
        }
        Some(Unclaimed {
            process: see(process.pid)?,
            descendants: below.into_iter().filter_map(see).collect(),
        })
    });
    Ok(with_all.collect())
}

/// One that nobody claims, and all that it has started, as far as that is seen before it loses its parent.
#[derive(Debug)]
pub(super) struct Line {
    /// By number and start time. Who has gone is known all the same.
    known: BTreeSet<(u32, u64)>,
}

impl Line {
    pub(super) fn of(process: &KnownProcess) -> Self {
        Self {
            known: BTreeSet::from([(process.pid, process.start_time)]),
        }
    }

    /// Those that are there. Who has an identity of its own is somebody's, who ends it.
    pub(super) fn look(&mut self) -> Members {
        let scene = match processes::look(&[]) {
            Ok(scene) => scene,
            Err(error) => {
                let known = self.known.iter().filter_map(|(pid, _)| see(*pid));
                let known = known.collect();
                return Members {
                    known: self.only_known(known),
                    unseen: Some(error.to_string()),
                };
            }
        };
        let as_listed = |it: &Process| see(it.pid).filter(|now| now.start_time == it.start_time);
        let all: Vec<_> = scene.processes.values().filter_map(as_listed).collect();
        let roots: BTreeSet<u32> = all
            .iter()
            .filter(|it| self.knows(it))
            .map(|it| it.pid)
            .collect();
        let new = all
            .iter()
            .filter(|it| is_only_below(&scene, it.pid, &roots))
            .map(|it| (it.pid, it.start_time));
        let new: Vec<_> = new.collect();
        self.known.extend(new);
        Members {
            known: self.only_known(all),
            unseen: None,
        }
    }

    fn only_known(&self, mut processes: Vec<KnownProcess>) -> Vec<KnownProcess> {
        processes.retain(|it| self.knows(it));
        processes
    }

    pub(super) fn knows(&self, process: &KnownProcess) -> bool {
        self.known.contains(&(process.pid, process.start_time))
    }
}

/// Returns whether it is below one of these, and nobody up to there carries an identity or is a guardian: what a server of somebody's starts is that server's,
/// also where it says nothing of it.
fn is_only_below(scene: &Scene, pid: u32, roots: &BTreeSet<u32>) -> bool {
    let mut line = scene.line(pid);
    if !line.any(|above| roots.contains(&above)) {
        return false;
    }
    let mut between = scene.line(pid).take_while(|above| !roots.contains(above));
    between.all(|above| {
        let process = scene.processes.get(&above);
        process.is_some_and(|it| it.mark == Mark::None) && !processes::is_guardian(above)
    })
}

/// Returns whether a service manager keeps it, by its cgroup. What cannot be told is a service.
fn is_a_service(pid: u32) -> bool {
    match sys::text_of(format!("/proc/{pid}/cgroup")) {
        Ok(cgroups) => cgroups.lines().any(|line| line.ends_with(".service")),
        Err(_) => true,
    }
}
