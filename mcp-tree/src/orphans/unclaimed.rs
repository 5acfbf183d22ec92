//! Processes that no host claims: the remains of hosts without containment.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::time::Instant;
use std::{fs, io};

use super::hunt::{Judge, Look, Signalled, key};
use super::inventory::see;
use super::known::{KnownProcess, Unclaimed};
use super::members::is_unchanged;
use super::verdict::{Mark, Process, Scene};
use super::{input, processes};
use crate::sys;

/// Lists processes that no host claims. Their purpose is not known: no launcher ends them.
pub fn unclaimed() -> io::Result<Vec<Unclaimed>> {
    let user = nix::unistd::geteuid().as_raw();
    let is_own = |pid: u32| fs::metadata(format!("/proc/{pid}")).is_ok_and(|it| it.uid() == user);
    let scene = processes::look(&[])?;
    let is_adopter = |pid: u32| {
        let process = scene.processes.get(&pid);
        // A manager of the user's services adopts the user's orphans.
        pid == 1 || process.is_some_and(|it| it.name == "systemd" && it.parent == 1 && is_own(pid))
    };
    let is_left = |process: &&Process| {
        process.mark == Mark::None
            && process.pid > 1
            && is_adopter(process.parent)
            && is_own(process.pid)
            && !is_a_service(process.pid)
            // A shim carries no mark and a guardian may carry none; both end by themselves.
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

/// An unclaimed process and its descendants, as far as they are seen before they are reparented.
#[derive(Debug)]
pub(super) struct Line {
    known: BTreeSet<(u32, u64)>,
}

impl Line {
    pub(super) fn of(process: &KnownProcess) -> Self {
        Self {
            known: BTreeSet::from([(process.pid, process.start_time)]),
        }
    }
}

impl Judge for Line {
    /// Finds those that live. A descendant with an identity belongs to another host, which ends it.
    fn look(&mut self, _signalled: &Signalled, _end: Instant) -> Look {
        let scene = match processes::look(&[]) {
            Ok(scene) => scene,
            Err(error) => {
                let known = self.known.iter();
                let known =
                    known.filter_map(|it| processes::read(it.0).filter(|now| key(now) == *it));
                return Look {
                    found: known.collect(),
                    unsettled: Some(error.to_string()),
                };
            }
        };
        let all = scene.processes.values();
        let roots = all.clone().filter(|it| self.known.contains(&key(it)));
        let roots: BTreeSet<u32> = roots.map(|it| it.pid).collect();
        let new = all
            .clone()
            .filter(|it| is_only_below(&scene, it.pid, &roots));
        self.known.extend(new.map(key));
        let found = all.filter(|it| self.known.contains(&key(it)));
        Look {
            found: found.cloned().collect(),
            unsettled: None,
        }
    }

    fn is_still(&self, process: &Process) -> io::Result<bool> {
        Ok(is_unchanged(process))
    }
}

/// Returns whether it descends from one of these, and no process in between carries an identity or is
/// a guardian.
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

/// Returns whether it belongs to a service manager, by its cgroup. `true` if that cannot be found out.
fn is_a_service(pid: u32) -> bool {
    match sys::text_of(format!("/proc/{pid}/cgroup")) {
        Ok(cgroups) => cgroups.lines().any(|line| line.ends_with(".service")),
        Err(_) => true,
    }
}
