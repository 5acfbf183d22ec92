//! The processes that are a server's now, for whoever is to end it.

use std::collections::BTreeSet;
use std::io;
use std::time::Instant;

use super::inventory::try_see;
use super::processes;
use super::sight;
use super::verdict::{Mark, Process, Scene, may_be_of};
use crate::cgroup::Leaf;
use crate::inventory::{KnownProcess, KnownServer};
use crate::patience::Patience;
use crate::sys;

pub(super) const HIDDEN: &str =
    "somebody in its cgroup is in a PID namespace that is not visible here";

/// Who is to be ended.
pub(super) struct Members {
    pub(super) known: Vec<KnownProcess>,
    /// Why there may be more.
    pub(super) unseen: Option<String>,
}

impl Members {
    /// Returns whether it is certain that there are none.
    pub(super) fn are_none(&self) -> bool {
        self.known.is_empty() && self.unseen.is_none()
    }
}

/// Who is in a server's cgroup.
#[derive(Default)]
pub(super) struct Inside {
    /// By number.
    pub(super) pids: Vec<u32>,
    /// `true` if there are some whose number is not visible here.
    pub(super) has_hidden: bool,
}

/// Looks into its cgroup. One that is gone has nobody inside.
///
/// # Errors
///
/// It cannot be looked into, which says nothing.
pub(super) fn inside(server: &KnownServer) -> io::Result<Inside> {
    let leaf = match server.leaf.clone().map(Leaf::adopt) {
        None => return Ok(Inside::default()),
        Some(Err(error)) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Inside::default());
        }
        Some(leaf) => leaf?,
    };
    let members = leaf.members();
    leaf.abandon();
    let (hidden, pids): (Vec<u32>, _) = members?.into_iter().partition(|pid| *pid == 0);
    Ok(Inside {
        pids,
        has_hidden: !hidden.is_empty(),
    })
}

/// The processes of one server, looked at again and again until there are none.
#[derive(Debug)]
pub(super) struct Roster<'a> {
    pub(super) server: &'a KnownServer,
    /// Who was there while its guardian lived, and not below that, by number and start time: nobody of the
    /// server's. `None` if the guardian was never seen.
    strangers: Option<BTreeSet<(u32, u64)>>,
}

impl<'a> Roster<'a> {
    pub(super) fn of(server: &'a KnownServer) -> Self {
        Self {
            server,
            strangers: None,
        }
    }

    /// Everybody who is the server's now: who carries its identity, who is below its guardian or its own process, and who is in its cgroup.
    /// Who comes and goes is waited for until `end` at most, and not while anybody is known who can be ended.
    pub(super) fn look(&mut self, end: Instant) -> Members {
        let mut unseen = None;
        let mut note = |why: String| {
            unseen.get_or_insert(why);
        };
        let mut pids = Vec::new();
        match processes::look(&[]) {
            Ok(mut scene) => {
                let mut all = scene.processes.values();
                let has_some = all.any(|it| !it.is_guardian && is_of(self.server, it, &scene));
                let end = if has_some { Instant::now() } else { end };
                if let Some(why) = self.doubt(&mut scene, end) {
                    note(why);
                }
                let all = scene.processes.values().filter(|it| !it.is_guardian);
                let theirs = all.filter(|it| is_of(self.server, it, &scene));
                pids.extend(theirs.map(|it| it.pid));
            }
            Err(error) => note(error.to_string()),
        }
        match inside(self.server) {
            Ok(inside) => {
                if inside.has_hidden {
                    note(HIDDEN.to_owned());
                }
                let inside = inside.pids.into_iter();
                pids.extend(inside.filter(|pid| !processes::is_guardian(*pid)));
            }
            Err(error) => note(error.to_string()),
        }
        pids.sort_unstable();
        pids.dedup();
        let mut known = Vec::new();
        for pid in pids {
            match try_see(pid) {
                Ok(process) => known.extend(process),
                Err(error) => note(error.to_string()),
            }
        }
        Members { known, unseen }
    }

    /// Why one of those may be the server's who do not say whose they are, if one may: while its guardian lives,
    /// whoever is the server's is below that, and where it had a cgroup, it is inside.
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
            sight::shows_all()
                .err()
                .filter(|_| self.strangers.is_none())
        };
        match left {
            Some(left) => Some(format!(
                "process {} ({}) does not say whose it is: {}",
                left.pid,
                left.name,
                match &left.mark {
                    Mark::Unseen(why) => why,
                    _ => "it did not come to rest while it was looked at",
                }
            )),
            None => hides().map(|error| error.to_string()),
        }
    }

    /// Returns whether a process is still the server's, by what it says or where it is.
    pub(super) fn has(&self, pid: u32) -> bool {
        let is_said = match processes::mark_of(pid) {
            Ok(Some(Mark::Cookie(mark))) => mark == self.server.cookie,
            _ => is_below(self.server, pid),
        };
        is_said || inside(self.server).is_ok_and(|inside| inside.pids.contains(&pid))
    }
}

/// Returns whether it is the server's, by its mark, or else by who is above it.
pub(super) fn is_of(server: &KnownServer, process: &Process, scene: &Scene) -> bool {
    match scene.server_of(process) {
        Some(mark) => *mark == server.cookie,
        None => scene.line(process.pid).any(|above| {
            let above = scene.processes.get(&above);
            above.is_some_and(|above| server.is_recorded(above.pid, above.start_time))
        }),
    }
}

/// Returns whether it is the server's own process, or is below that or its guardian.
fn is_below(server: &KnownServer, pid: u32) -> bool {
    // A table that is read while it changes may go round in circles.
    const DEPTH: usize = 1024;
    let parent = |seen: &sys::Seen| sys::see(seen.parent).filter(|above| above.pid > 1);
    let line = std::iter::successors(sys::see(pid), parent).take(DEPTH);
    for seen in line {
        if server.is_recorded(seen.pid, seen.start_time) {
            return true;
        }
        let guardian = processes::read(seen.pid).filter(|it| it.is_guardian && it.pid != pid);
        if let Some(guardian) = guardian {
            return matches!(guardian.mark, Mark::Cookie(mark) if mark == server.cookie);
        }
    }
    false
}
