//! Lists the living processes of a server, by what the host itself can read.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use mcp_lifecycle_core::launch::Remnant;

use super::guarded::Guarded;
use crate::conclusion::decide::Main;
use crate::orphans::{self, Where};
use crate::sys::{self, ProcessState, Seen};

impl Guarded {
    /// Names the living processes, and the zombies that cannot be reaped.
    pub fn survivors(&self) -> io::Result<Vec<Remnant>> {
        if self.ending.is_proven() {
            return Ok(Vec::new());
        }
        let all = sys::see_all()?;
        let mut found = BTreeMap::new();
        let mut add = |seen: &Seen| {
            let held = || sys::tracer_of(seen.pid).is_some();
            let name = match seen.state {
                ProcessState::Dead if !held() => return,
                ProcessState::Dead => format!("{}, ended but held by a tracer", seen.name),
                _ => seen.name.clone(),
            };
            found.insert(seen.pid, name);
        };
        if !self.is_guardian_over() {
            descendants(self.guardian.pid(), &all)
                .into_iter()
                .for_each(&mut add);
        }
        let members = self
            .leaf
            .as_ref()
            .map(|leaf| leaf.members().unwrap_or_default());
        let members: BTreeSet<u32> = members.unwrap_or_default().into_iter().collect();
        all.iter()
            .filter(|seen| members.contains(&seen.pid) || self.is_main(seen))
            .for_each(&mut add);
        if self.is_guardian_over() {
            match self.marked() {
                Ok(marked) => marked.iter().for_each(&mut add),
                Err(error) if found.is_empty() => return Err(error),
                Err(_) => {}
            }
        } else if let Some(guardian) = all.iter().find(|seen| seen.pid == self.guardian.pid()) {
            let why = match guardian.state {
                ProcessState::Stopped => "stopped",
                ProcessState::Traced => "held by a tracer",
                ProcessState::Dead if sys::tracer_of(guardian.pid).is_some() => {
                    "ended but held by a tracer"
                }
                ProcessState::Live | ProcessState::Exiting | ProcessState::Dead => "",
            };
            if !why.is_empty() {
                found.insert(guardian.pid, format!("{}, {why}", guardian.name));
            }
        }
        let found = found.into_iter();
        let found = found.map(|(pid, name)| Remnant::process(pid, name));
        Ok(found.chain(self.ending.awaited()).collect())
    }

    pub(super) fn look_at_main(&self) -> Main {
        let Some(pid) = self.main_pid() else {
            return Main::NotSeen;
        };
        // Reaped: the pid may be reused.
        if self.ending.has_exited() {
            return Main::Ended;
        }
        if self.start_time().is_none() || sys::see(std::process::id()).is_none() {
            return Main::Unknown;
        }
        // A read that fails, for want of a descriptor say, is no answer.
        self.place_of_main(pid).unwrap_or(Main::Unknown)
    }

    fn place_of_main(&self, pid: u32) -> io::Result<Main> {
        let lives = || {
            let ended = |state| matches!(state, ProcessState::Dead | ProcessState::Exiting);
            let seen = sys::look_at(pid)?;
            io::Result::Ok(seen.is_some_and(|seen| self.is_main(&seen) && !ended(seen.state)))
        };
        if !lives()? {
            return Ok(Main::Ended);
        }
        let is_in_leaf = match &self.leaf {
            Err(_) => false,
            Ok(leaf) if leaf.members()?.contains(&pid) => return Ok(Main::Inside),
            Ok(leaf) => sys::cgroup_of(pid)?.is_some_and(|path| leaf.is_named_in(&path)),
        };
        // An exiting process leaves its cgroup before it is a zombie; its `cgroup` file still names
        // it.
        Ok(match is_in_leaf || !lives()? {
            true => Main::Ended,
            false => Main::Outside,
        })
    }

    /// Kills the descendants of the guardian, except for processes that are forked meanwhile.
    pub(super) fn kill_descendants(&self) {
        let all = sys::see_all().unwrap_or_default();
        // The pid may have been reused.
        if self.is_guardian_over() {
            return;
        }
        for seen in descendants(self.guardian.pid(), &all) {
            let is_it = |now: &Seen| now.start_time == seen.start_time && now.parent == seen.parent;
            if let Err(error) = kill(seen.pid, is_it) {
                let pid = seen.pid;
                crate::logged!(debug, pid, %error, "a process of a server cannot be killed");
            }
        }
    }

    fn marked(&self) -> io::Result<Vec<Seen>> {
        let all = orphans::census(Where::Everywhere, self.since, &[])?;
        let own = all.into_iter().filter(|it| it.identity == self.identity);
        let seen = own.filter(|it| it.identity.is_some()).map(|it| it.seen);
        Ok(seen
            .filter(|seen| !orphans::is_guardian(seen.pid))
            .collect())
    }

    pub(super) fn is_main(&self, seen: &Seen) -> bool {
        Some(seen.pid) == self.main_pid() && Some(seen.start_time) == self.start_time()
    }
}

/// Kills a process, unless it has gone or `is_it` rejects it. After an error it may live.
pub(super) fn kill(pid: u32, is_it: impl Fn(&Seen) -> bool) -> io::Result<()> {
    let is_it = || Ok(sys::look_at(pid)?.is_some_and(|now| is_it(&now)));
    sys::reserve::with(|| orphans::strike(pid, is_it, sys::kill_held).map(drop))
}

/// Finds the descendants of `root`, which is not reaped. A child older than its parent is skipped:
/// the pid was reused between two readings. Pure.
fn descendants(root: u32, all: &[Seen]) -> Vec<&Seen> {
    let mut children = BTreeMap::<u32, Vec<&Seen>>::new();
    for seen in all {
        children.entry(seen.parent).or_default().push(seen);
    }
    let mut found = Vec::new();
    let mut next = all
        .iter()
        .filter(|seen| seen.pid == root)
        .collect::<Vec<_>>();
    let mut known = BTreeSet::from([root]);
    while let Some(parent) = next.pop() {
        for &child in children.get(&parent.pid).into_iter().flatten() {
            if child.start_time >= parent.start_time && known.insert(child.pid) {
                found.push(child);
                next.push(child);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(pid: u32, parent: u32, start_time: u64) -> Seen {
        Seen {
            pid,
            parent,
            start_time,
            ..Seen::default()
        }
    }

    #[test]
    fn descendants_are_below_and_not_older() {
        let all = [
            seen(10, 1, 5),
            seen(11, 10, 6),
            seen(12, 11, 6),
            seen(13, 12, 4),
            seen(14, 1, 9),
            seen(15, 14, 9),
        ];
        let found: Vec<u32> = descendants(10, &all).iter().map(|seen| seen.pid).collect();
        assert_eq!(found, [11, 12]);
        assert!(descendants(99, &all).is_empty());
        let circle = [seen(2, 3, 1), seen(3, 2, 1)];
        assert_eq!(descendants(2, &circle).len(), 1);
    }
}
