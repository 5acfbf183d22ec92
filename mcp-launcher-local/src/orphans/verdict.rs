//! Whom to end and whom to spare. Pure.

use crate::identity::{Cookie, HostId};

/// What a process says about whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mark {
    Cookie(Cookie),
    /// It says something that is no identity.
    Unreadable,
}

/// A process that carries a mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) start_time: u64,
    pub(super) name: String,
    pub(super) is_guardian: bool,
    pub(super) mark: Mark,
}

/// What to do about a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// End it.
    End,
    /// It is ending what is left of its server; ending *it* would set that
    /// free. Wait.
    Wait,
    /// Leave it alone, and say so.
    Spare,
    /// A server of this host: none of our business here.
    Own,
}

/// What is known about hosts.
#[derive(Debug)]
pub(super) struct Hosts<'a> {
    /// Who asks.
    pub(super) this: Option<&'a HostId>,
    /// Which boot it is.
    pub(super) boot_id: &'a str,
    /// Proven dead.
    pub(super) dead: &'a [HostId],
    /// Known to live.
    pub(super) living: &'a [HostId],
    /// The one who asks, and its parents.
    pub(super) own_line: &'a [u32],
}

impl Hosts<'_> {
    /// Every doubt is a reason to spare.
    pub(super) fn judge(&self, process: &Process) -> Verdict {
        let Mark::Cookie(cookie) = &process.mark else {
            return Verdict::Spare;
        };
        let host = cookie.host();
        if Some(host) == self.this {
            return Verdict::Own;
        }
        let is_a_host = self
            .living
            .iter()
            .any(|host| host.pid() == process.pid && host.start_time() == process.start_time);
        let spared = process.pid <= 1
            || self.own_line.contains(&process.pid)
            // A host that is itself somebody's server answers for its own.
            || is_a_host
            || host.boot_id() != self.boot_id
            || !self.dead.contains(host)
            // Nobody is older than who started them.
            || process.start_time < host.start_time();
        match (spared, process.is_guardian) {
            (true, _) => Verdict::Spare,
            (false, true) => Verdict::Wait,
            (false, false) => Verdict::End,
        }
    }

    /// Whether a cgroup of the dead host `owner` may be emptied with these
    /// inside. Processes without a mark have dropped it; one that is marked as
    /// somebody else's has no business there.
    pub(super) fn may_empty<'p>(
        &self,
        owner: &HostId,
        mut members: impl Iterator<Item = (u32, Option<&'p Mark>)>,
    ) -> bool {
        owner.boot_id() == self.boot_id
            && self.dead.contains(owner)
            && members.all(|(pid, mark)| {
                let is_theirs = match mark {
                    None => true,
                    Some(Mark::Cookie(cookie)) => cookie.host() == owner,
                    Some(Mark::Unreadable) => false,
                };
                is_theirs && pid > 1 && !self.own_line.contains(&pid)
            })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOOT: &str = "01234567-89ab-cdef-0123-456789abcdef";
    const OTHER_BOOT: &str = "11234567-89ab-cdef-0123-456789abcdef";

    fn host(pid: u32, boot: &str, nonce: u64) -> HostId {
        HostId::new(pid, 100, boot, nonce).unwrap()
    }

    fn of(host: &HostId, pid: u32) -> Process {
        Process {
            pid,
            start_time: 200,
            name: "server".to_owned(),
            is_guardian: false,
            mark: Mark::Cookie(Cookie::new(host.clone(), 1)),
        }
    }

    fn judge(process: &Process) -> Verdict {
        hosts(|hosts| hosts.judge(process))
    }

    fn hosts<T>(with: impl FnOnce(&Hosts<'_>) -> T) -> T {
        let this = host(10, BOOT, 1);
        let dead = [host(20, BOOT, 2), host(21, OTHER_BOOT, 3)];
        let living = [host(30, BOOT, 4)];
        with(&Hosts {
            this: Some(&this),
            boot_id: BOOT,
            dead: &dead,
            living: &living,
            own_line: &[10, 9],
        })
    }

    #[test]
    fn servers_of_the_dead_end_and_their_guardians_are_waited_for() {
        let mut process = of(&host(20, BOOT, 2), 50);
        assert_eq!(judge(&process), Verdict::End);
        process.is_guardian = true;
        assert_eq!(judge(&process), Verdict::Wait);
    }

    #[test]
    fn everybody_else_is_spared() {
        let dead = host(20, BOOT, 2);
        for (why, process) in [
            ("its host lives", of(&host(30, BOOT, 4), 50)),
            ("its host is unknown", of(&host(20, BOOT, 99), 50)),
            ("another boot", of(&host(21, OTHER_BOOT, 3), 50)),
            (
                "it is a host itself",
                Process {
                    start_time: 100,
                    ..of(&dead, 30)
                },
            ),
            ("it is who asks", of(&dead, 10)),
            ("it started who asks", of(&dead, 9)),
            ("the first process", of(&dead, 1)),
            (
                "older than its host",
                Process {
                    start_time: 99,
                    ..of(&dead, 50)
                },
            ),
            (
                "no identity",
                Process {
                    mark: Mark::Unreadable,
                    ..of(&dead, 50)
                },
            ),
        ] {
            assert_eq!(judge(&process), Verdict::Spare, "{why}");
        }
        assert_eq!(judge(&of(&host(10, BOOT, 1), 50)), Verdict::Own);
    }

    #[test]
    fn a_cgroup_with_a_stranger_inside_is_left_alone() {
        let dead = host(20, BOOT, 2);
        let ours = Mark::Cookie(Cookie::new(dead.clone(), 5));
        let theirs = Mark::Cookie(Cookie::new(host(30, BOOT, 4), 5));
        let may = |owner: &HostId, members: &[(u32, Option<&Mark>)]| {
            hosts(|hosts| hosts.may_empty(owner, members.iter().copied()))
        };
        assert!(may(&dead, &[]));
        assert!(may(&dead, &[(50, None), (51, Some(&ours))]));
        assert!(!may(&dead, &[(50, None), (51, Some(&theirs))]));
        assert!(!may(&dead, &[(50, Some(&Mark::Unreadable))]));
        assert!(!may(&dead, &[(9, None)]));
        assert!(!may(&dead, &[(1, None)]));
        assert!(!may(&host(30, BOOT, 4), &[]));
        assert!(!may(&host(21, OTHER_BOOT, 3), &[]));
    }

    proptest! {
        /// Whatever is ended carries the identity of a host that is proven dead.
        #[test]
        fn only_the_dead_lose_servers(
            pid in 0..60_u32, start_time in 90..210_u64, nonce in 0..6_u64,
            host_pid in 1..40_u32, boot in any::<bool>(),
        ) {
            let owner = host(host_pid, if boot { BOOT } else { OTHER_BOOT }, nonce);
            let process = Process { start_time, ..of(&owner, pid) };
            if judge(&process) == Verdict::End {
                prop_assert_eq!(owner, host(20, BOOT, 2));
                prop_assert!(pid > 1 && start_time >= 100 && pid != 9 && pid != 10);
            }
        }
    }
}
