//! The processes that may be left of a server whose guardian was killed, by whose children they are
//! now. Pure; the model test includes this file by path.
//!
//! What loses its parent is given to the nearest subreaper above, which was the
//! guardian, or to the first process of the PID namespace. So as long as anybody
//! of the server lives once its guardian has gone, somebody of it is a child of
//! one of those who adopt now: of who is above the host, or of the first process
//! of a namespace that it has entered. Neither an environment that was wiped nor
//! a cgroup that was left changes that.

use std::collections::{BTreeMap, BTreeSet};

use crate::cgroup;
use crate::identity::{Cookie, HostId};

/// A process, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    /// 0 where its leader is not visible.
    pub(crate) session: u32,
    pub(crate) start_time: u64,
    /// It has ended, and is not reaped.
    pub(crate) is_dead: bool,
}

/// Everybody who lives or is not reaped, and who adopts orphans.
#[derive(Debug, Default)]
pub(crate) struct Scene {
    pub(crate) processes: BTreeMap<u32, Process>,
    pub(crate) adopters: BTreeSet<u32>,
}

/// Whose an adopted process is, by what it says and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Whose {
    /// It says nothing, or nothing that can be read.
    Anybody,
    Says(Cookie),
    /// It is in the cgroup of a server of this host, of this name.
    InCgroup(String),
    /// It is in another PID namespace and in the cgroup of the first process there,
    /// which is not the host's: a container that keeps it.
    InContainer,
}

impl Scene {
    /// Those who were adopted, and may be of a server that was started at `since`,
    /// in clock ticks since boot.
    pub(crate) fn adopted_since(&self, since: u64) -> Vec<&Process> {
        let is_adopted = |process: &&Process| {
            process.start_time >= since
                && process.session != 0
                && self.adopters.contains(&process.parent)
        };
        let mut adopted: Vec<&Process> = self.processes.values().filter(is_adopted).collect();
        // Nobody enters a session: its members were born in it, or made it. So who is
        // in one with somebody who cannot be the server's is not, either. Who has ended says
        // nothing of it: the guardian itself may, where a tracer holds it.
        loop {
            let may_be = self.with_descendants(&adopted);
            let others = self.processes.values();
            let others =
                others.filter(|process| !process.is_dead && !may_be.contains(&process.pid));
            let theirs: BTreeSet<u32> = others.map(|process| process.session).collect();
            let before = adopted.len();
            adopted.retain(|process| !theirs.contains(&process.session));
            if adopted.len() == before {
                adopted.retain(|process| !process.is_dead);
                return adopted;
            }
        }
    }

    fn with_descendants(&self, of: &[&Process]) -> BTreeSet<u32> {
        let mut children = BTreeMap::<u32, Vec<u32>>::new();
        for process in self.processes.values() {
            children
                .entry(process.parent)
                .or_default()
                .push(process.pid);
        }
        let mut all = BTreeSet::new();
        let mut next: Vec<u32> = of.iter().map(|process| process.pid).collect();
        while let Some(pid) = next.pop() {
            if all.insert(pid) {
                next.extend(children.get(&pid).into_iter().flatten());
            }
        }
        all
    }

    /// Those whose parent is not here, or cannot be who is here under its number:
    /// they have another one by now.
    pub(crate) fn strays(&self) -> impl Iterator<Item = u32> {
        let has_parent = |process: &&Process| match self.processes.get(&process.parent) {
            Some(parent) => parent.start_time <= process.start_time,
            None => process.parent == 0,
        };
        let strays = self.processes.values().filter(move |it| !has_parent(it));
        strays.map(|process| process.pid)
    }
}

impl Whose {
    /// Returns whether it can be of the server `server` that was started at `since`.
    pub(crate) fn may_be(&self, server: &Cookie, since: u64) -> bool {
        // A younger host may be one that the server has started.
        let is_nested = |host: &HostId| host != server.host() && host.start_time() >= since;
        match self {
            Self::Anybody => true,
            Self::InContainer => false,
            Self::InCgroup(name) => *name == cgroup::name(server),
            Self::Says(cookie) => cookie == server || is_nested(cookie.host()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scene(processes: &[(u32, u32, u32, u64)]) -> Scene {
        let process = |&(pid, parent, session, start_time)| Process {
            pid,
            parent,
            session,
            start_time,
            is_dead: false,
        };
        Scene {
            processes: processes.iter().map(|it| (it.0, process(it))).collect(),
            adopters: BTreeSet::from([1]),
        }
    }

    fn adopted(processes: &[(u32, u32, u32, u64)]) -> Vec<u32> {
        let scene = scene(processes);
        let adopted = scene.adopted_since(50);
        adopted.iter().map(|it| it.pid).collect()
    }

    #[test]
    fn who_lost_its_parent_since_and_has_a_younger_session_is_adopted() {
        // In the session of a guardian that has gone, and in one of its own.
        assert_eq!(adopted(&[(60, 1, 55, 60), (61, 1, 61, 61)]), [60, 61]);
        // Of the same instant, as far as the clock can tell.
        assert_eq!(adopted(&[(60, 1, 60, 50)]), [60]);
        // Older; not adopted; from outside of what is visible.
        assert_eq!(
            adopted(&[(60, 1, 60, 49), (61, 60, 61, 60), (62, 1, 0, 60)]),
            [0; 0]
        );
    }

    #[test]
    fn who_is_in_an_older_session_was_born_there() {
        // Its leader lives, or an older member does.
        assert_eq!(adopted(&[(40, 30, 40, 40), (60, 1, 40, 60)]), [0; 0]);
        assert_eq!(adopted(&[(41, 30, 40, 41), (60, 1, 40, 60)]), [0; 0]);
    }

    #[test]
    fn who_is_in_a_session_with_somebody_elses_child_is_somebody_elses() {
        // 40 does not adopt; its child is as young as can be, and has made a session.
        let theirs = [(40, 1, 40, 40), (60, 40, 60, 60), (61, 1, 60, 61)];
        assert_eq!(adopted(&theirs), [0; 0]);
        // Two who were adopted say nothing of each other; nor does a zombie.
        assert_eq!(adopted(&[(60, 1, 60, 60), (61, 1, 60, 61)]), [60, 61]);
        let mut scene = scene(&[(60, 1, 55, 60), (61, 1, 55, 61), (62, 61, 62, 62)]);
        scene.processes.get_mut(&60).unwrap().is_dead = true;
        let left: Vec<u32> = scene.adopted_since(50).iter().map(|it| it.pid).collect();
        assert_eq!(left, [61]);
    }

    #[test]
    fn a_guardian_that_a_tracer_keeps_from_being_reaped_hides_nobody() {
        // The host, its guardian, which has ended and leads its session, and one that it guarded.
        let mut scene = scene(&[(3, 1, 3, 3), (55, 3, 55, 55), (60, 1, 55, 60)]);
        scene.processes.get_mut(&55).unwrap().is_dead = true;
        let left: Vec<u32> = scene.adopted_since(50).iter().map(|it| it.pid).collect();
        assert_eq!(left, [60]);
    }

    #[test]
    fn who_is_a_child_of_nobody_here_has_another_parent() {
        let scene = scene(&[
            (1, 0, 1, 0),
            (5, 1, 5, 5),
            (6, 9, 6, 6),
            (7, 8, 7, 7),
            (8, 1, 8, 8),
        ]);
        let strays: Vec<u32> = scene.strays().collect();
        assert_eq!(
            strays,
            [6, 7],
            "one has gone, one is younger than its child"
        );
    }

    #[test]
    fn who_says_whose_it_is_is_believed_unless_the_server_may_have_said_so() {
        let host = |pid, start_time| HostId::new(pid, start_time, &"a".repeat(36), 7).unwrap();
        let ours = Cookie::new(host(10, 10), 1);
        let may_be = |whose: Whose| whose.may_be(&ours, 50);
        assert!(may_be(Whose::Anybody));
        assert!(may_be(Whose::Says(ours.clone())));
        assert!(!may_be(Whose::Says(Cookie::new(host(10, 10), 2))));
        assert!(!may_be(Whose::InContainer));
        let inside = |serial| Whose::InCgroup(cgroup::name(&Cookie::new(host(10, 10), serial)));
        assert!(may_be(inside(1)) && !may_be(inside(2)));
        assert!(!may_be(Whose::Says(Cookie::new(host(20, 49), 1))));
        assert!(may_be(Whose::Says(Cookie::new(host(20, 50), 1))), "nested");
    }
}
