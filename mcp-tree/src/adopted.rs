//! Finds the processes that may be left of a server after its guardian was killed, by their
//! parents. Pure; the model test includes this file by path.
//!
//! An orphan is reparented to the nearest subreaper above, which was the guardian, or to the first
//! process of its PID namespace. So one of the server's living processes is a child of an adopter:
//! a process above the host, or the first process of a namespace that it has entered. A wiped
//! environment and a left cgroup do not change that.

use std::collections::{BTreeMap, BTreeSet};

use crate::cgroup;
use crate::identity::{Cookie, HostId};
use crate::sys::{ProcessState, Seen};

/// A snapshot of all processes, zombies included.
#[derive(Debug, Default)]
pub struct Scene {
    pub processes: BTreeMap<u32, Seen>,
    pub adopters: BTreeSet<u32>,
    /// The sessions in which servers of this host are started.
    pub own_sessions: [u32; 2],
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whose {
    /// It has no mark, or none that can be read.
    Anybody,
    Says(Cookie),
    /// It is in the cgroup of this name, which belongs to a server of this host.
    InCgroup(String),
    /// It is in another PID namespace and shares the cgroup of the first process there, which is
    /// not the host's: a container keeps it.
    InContainer,
}

impl Scene {
    /// Returns the adopted processes that may belong to a server that was started at `since`, in
    /// clock ticks since boot.
    pub fn adopted_since(&self, since: u64) -> Vec<&Seen> {
        // A process is born in a session, or makes it. The server is born in one of the host's, but
        // in a group of its own. So a process is not the server's if it shares another session, or
        // within the host's a group, with one that cannot be; nor if its session or group was made
        // elsewhere. Zombies prove nothing: one may be the guardian itself.
        let company = |process: &Seen| match self.own_sessions.contains(&process.session) {
            true => (process.session, Some(process.group)),
            false => (process.session, None),
        };
        let is_adopted = |process: &&Seen| {
            process.start_time >= since
                && !matches!(company(process), (_, Some(0)) | (0, None))
                && self.adopters.contains(&process.parent)
        };
        let mut adopted: Vec<&Seen> = self.processes.values().filter(is_adopted).collect();
        loop {
            let may_be = self.with_descendants(&adopted);
            let others = self.processes.values();
            let others = others.filter(|process| {
                process.state != ProcessState::Dead && !may_be.contains(&process.pid)
            });
            let theirs: BTreeSet<_> = others.map(company).collect();
            let before = adopted.len();
            adopted.retain(|process| !theirs.contains(&company(process)));
            if adopted.len() == before {
                adopted.retain(|process| process.state != ProcessState::Dead);
                return adopted;
            }
        }
    }

    fn with_descendants(&self, of: &[&Seen]) -> BTreeSet<u32> {
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

    /// Returns the processes with a parent that is missing, or younger than they are: reparented
    /// since.
    pub fn strays(&self) -> impl Iterator<Item = u32> {
        let has_parent = |process: &&Seen| match self.processes.get(&process.parent) {
            Some(parent) => parent.start_time <= process.start_time,
            None => process.parent == 0,
        };
        let strays = self.processes.values().filter(move |it| !has_parent(it));
        strays.map(|process| process.pid)
    }
}

impl Whose {
    pub fn may_be(&self, server: &Cookie, since: u64) -> bool {
        // A younger host may have been started by the server.
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

    fn seen(pid: u32, parent: u32, session: u32, group: u32) -> Seen {
        Seen {
            pid,
            parent,
            session,
            group,
            start_time: pid.into(),
            ..Seen::default()
        }
    }

    fn scene(processes: &[(u32, u32, u32, u64)]) -> Scene {
        let process = |&(pid, parent, session, start_time)| Seen {
            start_time,
            ..seen(pid, parent, session, session)
        };
        Scene {
            processes: processes.iter().map(|it| (it.0, process(it))).collect(),
            adopters: BTreeSet::from([1]),
            own_sessions: [3; 2],
        }
    }

    fn adopted(processes: &[(u32, u32, u32, u64)]) -> Vec<u32> {
        let scene = scene(processes);
        let adopted = scene.adopted_since(50);
        adopted.iter().map(|it| it.pid).collect()
    }

    #[test]
    fn who_lost_its_parent_since_and_has_a_younger_session_is_adopted() {
        // One in the session of a guardian that has gone, and one in its own session.
        assert_eq!(adopted(&[(60, 1, 55, 60), (61, 1, 61, 61)]), [60, 61]);
        // Started in the same clock tick as the server.
        assert_eq!(adopted(&[(60, 1, 60, 50)]), [60]);
        // Older; not adopted; with a session leader that is not visible.
        assert_eq!(
            adopted(&[(60, 1, 60, 49), (61, 60, 61, 60), (62, 1, 0, 60)]),
            [0; 0]
        );
    }

    #[test]
    fn in_the_sessions_of_the_host_company_in_the_group_counts() {
        // Also where the leader of the host's session is not visible.
        for own in [3, 0] {
            let all = [
                // The host, and its own child.
                seen(3, 2, own, 3),
                seen(60, 1, own, 3),
                // Two of a group that the server has left, and one with its own; two with a leader
                // that is not visible, of the group or of another session.
                seen(61, 1, own, 55),
                seen(62, 61, own, 55),
                seen(63, 1, own, 63),
                seen(64, 1, own, 0),
                seen(65, 1, 9 - own, 65),
            ];
            for own_sessions in [[own, 8], [8, own]] {
                let scene = Scene {
                    processes: all.iter().map(|it| (it.pid, it.clone())).collect(),
                    adopters: BTreeSet::from([1]),
                    own_sessions,
                };
                let left: Vec<u32> = scene.adopted_since(50).iter().map(|it| it.pid).collect();
                assert_eq!(left, [61, 63, 65]);
            }
        }
    }

    #[test]
    fn who_is_in_an_older_session_was_born_there() {
        // Its leader lives, or an older member does.
        assert_eq!(adopted(&[(40, 30, 40, 40), (60, 1, 40, 60)]), [0; 0]);
        assert_eq!(adopted(&[(41, 30, 40, 41), (60, 1, 40, 60)]), [0; 0]);
    }

    #[test]
    fn who_is_in_a_session_with_somebody_elses_child_is_somebody_elses() {
        // 40 does not adopt; its child is young, and has made a session.
        let theirs = [(40, 1, 40, 40), (60, 40, 60, 60), (61, 1, 60, 61)];
        assert_eq!(adopted(&theirs), [0; 0]);
        // Two adopted processes prove nothing about each other; nor does a zombie.
        assert_eq!(adopted(&[(60, 1, 60, 60), (61, 1, 60, 61)]), [60, 61]);
        let mut scene = scene(&[(60, 1, 55, 60), (61, 1, 55, 61), (62, 61, 62, 62)]);
        scene.processes.get_mut(&60).unwrap().state = ProcessState::Dead;
        let left: Vec<u32> = scene.adopted_since(50).iter().map(|it| it.pid).collect();
        assert_eq!(left, [61]);
    }

    #[test]
    fn a_guardian_that_a_tracer_keeps_from_being_reaped_hides_nobody() {
        // The host; its guardian, a zombie that leads its session; a process of the server.
        let mut scene = scene(&[(3, 1, 3, 3), (55, 3, 55, 55), (60, 1, 55, 60)]);
        scene.processes.get_mut(&55).unwrap().state = ProcessState::Dead;
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
