//! The verdict on a container: its host, and whether that lives. Pure.

use std::collections::{BTreeSet, HashMap};

use crate::labels;
use crate::lease::Other;
use crate::machine;

/// The host that searches, and its machine.
#[derive(Debug, Clone)]
pub(super) struct Me {
    /// The names of the directories whose leases are seen.
    domains: BTreeSet<String>,
    machine: String,
    boot: String,
}

impl Me {
    pub(super) fn new(domains: impl IntoIterator<Item = String>) -> Self {
        Self {
            domains: domains.into_iter().collect(),
            machine: machine::id(),
            boot: machine::boot(),
        }
    }
}

/// The visible leases of the hosts of this machine.
#[derive(Debug)]
pub(super) struct Leases {
    me: Me,
    /// The instances whose leases are held.
    living: BTreeSet<String>,
    /// Those whose leases nobody held, so that we hold them now.
    dead: BTreeSet<String>,
}

impl Leases {
    pub(super) fn new(me: Me, others: &[Other]) -> Self {
        let instances = |alive| {
            let some = others.iter().filter(move |other| other.alive == alive);
            some.map(|other| other.instance.clone()).collect()
        };
        Self {
            me,
            living: instances(true),
            dead: instances(false),
        }
    }

    /// As they are after containers were listed: a host may have taken its
    /// lease, and created what is listed, since the others were looked at. It
    /// takes the lease first, so that now it is there.
    pub(super) fn after_a_list(&self, instances: BTreeSet<String>) -> Self {
        let late = instances.difference(&self.dead).cloned();
        Self {
            me: self.me.clone(),
            living: self.living.iter().cloned().chain(late).collect(),
            dead: self.dead.clone(),
        }
    }
}

/// The verdict on a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Its host is proven dead.
    Dead,
    /// It is not touched.
    Spared(Why),
}

/// The reason a container is not touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// Its labels are not complete.
    Unreadable,
    /// Its host was on another machine.
    OtherMachine,
    /// Its host keeps its lease where we cannot see it.
    OtherDomain,
    /// Its host lives.
    Living,
    /// Its host's lease is gone, and a process of its number lives: it may have
    /// lost its lease to a cleaner of temporary files.
    MayLive,
    /// Its server's policy was to leave it.
    Kept,
}

/// Judges a container by its labels.
///
/// A lease that nobody holds is a dead host, a missing one only within a domain that
/// we see. A host of
/// an earlier boot is dead in any domain, if the container `rests`: it does not
/// run, and the engine is behind a socket of this machine. Machine ids may be
/// cloned or empty, and a socket may lead to another machine; but what runs is
/// not of an earlier boot of the engine's machine.
///
/// Without a lease to look at the process of the host's number has a say, if it
/// lives: `is_alive` tells.
pub(super) fn judge(
    labels: &HashMap<String, String>,
    leases: &Leases,
    rests: bool,
    is_alive: impl Fn(&str) -> bool,
) -> Verdict {
    let label = |key| labels.get(key).map(String::as_str);
    let (Some(instance), Some(domain), Some(machine), Some(boot), Some(on_end)) = (
        label(labels::INSTANCE),
        label(labels::DOMAIN),
        label(labels::MACHINE),
        label(labels::BOOT),
        label(labels::ON_END),
    ) else {
        return Verdict::Spared(Why::Unreadable);
    };
    let me = &leases.me;
    if machine != me.machine {
        return Verdict::Spared(Why::OtherMachine);
    }
    if leases.living.contains(instance) {
        return Verdict::Spared(Why::Living);
    }
    let are_known = !machine.is_empty() && !boot.is_empty() && !me.boot.is_empty();
    let earlier_boot = rests && are_known && boot != me.boot;
    // A lease that is in our hands is where we look, whatever its directory was called.
    let is_dead = leases.dead.contains(instance);
    let ours = is_dead || me.domains.contains(domain) && !domain.is_empty();
    if !ours && !earlier_boot {
        return Verdict::Spared(Why::OtherDomain);
    }
    let same_boot = !earlier_boot && boot == me.boot;
    if same_boot && !is_dead && label(labels::HOST_PID).is_some_and(is_alive) {
        return Verdict::Spared(Why::MayLive);
    }
    if on_end != labels::END {
        return Verdict::Spared(Why::Kept);
    }
    Verdict::Dead
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leases() -> Leases {
        Leases {
            me: Me {
                domains: ["d".to_owned()].into(),
                machine: "m".into(),
                boot: "b".into(),
            },
            living: ["alive".to_owned()].into(),
            dead: ["dead".to_owned()].into(),
        }
    }

    fn of(instance: &str, domain: &str, machine: &str, boot: &str) -> HashMap<String, String> {
        [
            (labels::INSTANCE, instance),
            (labels::DOMAIN, domain),
            (labels::MACHINE, machine),
            (labels::BOOT, boot),
            (labels::ON_END, labels::END),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
    }

    fn verdict(labels: &HashMap<String, String>) -> Verdict {
        judge(labels, &leases(), true, |_| false)
    }

    #[test]
    fn only_a_dead_host_that_can_be_judged_loses_its_containers() {
        assert_eq!(verdict(&of("dead", "d", "m", "b")), Verdict::Dead);
        let spared = [
            (of("alive", "d", "m", "b"), Why::Living),
            (of("dead", "d", "other", "b"), Why::OtherMachine),
            (of("unseen", "other", "m", "b"), Why::OtherDomain),
            (HashMap::new(), Why::Unreadable),
        ];
        for (labels, why) in spared {
            assert_eq!(verdict(&labels), Verdict::Spared(why));
        }
    }

    /// The name of the directory was lost, and another host made up a new one.
    #[test]
    fn a_lease_that_is_there_and_not_held_is_the_proof_whatever_its_directory_is_called() {
        assert_eq!(verdict(&of("dead", "other", "m", "b")), Verdict::Dead);
        let alive = verdict(&of("alive", "other", "m", "b"));
        assert_eq!(alive, Verdict::Spared(Why::Living));
    }

    #[test]
    fn a_host_that_came_between_the_leases_and_the_list_lives() {
        let new = of("new", "d", "m", "b");
        assert_eq!(verdict(&new), Verdict::Dead);
        // The dead one's lease is there as well: it is ours to forget.
        let now = ["new", "dead"].map(str::to_owned).into();
        let leases = leases().after_a_list(now);
        assert_eq!(
            judge(&new, &leases, true, |_| false),
            Verdict::Spared(Why::Living)
        );
        let dead = of("dead", "d", "m", "b");
        assert_eq!(judge(&dead, &leases, true, |_| false), Verdict::Dead);
        let alive = of("alive", "d", "m", "b");
        assert_eq!(
            judge(&alive, &leases, true, |_| false),
            Verdict::Spared(Why::Living)
        );
    }

    #[test]
    fn an_earlier_boot_is_dead_where_the_engine_is_local() {
        let earlier = of("unseen", "other", "m", "earlier");
        assert_eq!(verdict(&earlier), Verdict::Dead);
        let remote = judge(&earlier, &leases(), false, |_| false);
        assert_eq!(remote, Verdict::Spared(Why::OtherDomain));
    }

    #[test]
    fn without_leases_only_an_earlier_boot_is_dead() {
        let mut none = Leases::new(leases().me, &[]);
        none.me.domains.clear();
        let earlier = of("dead", "d", "m", "earlier");
        assert_eq!(judge(&earlier, &none, true, |_| false), Verdict::Dead);
        for domain in ["d", ""] {
            let now = judge(&of("dead", domain, "m", "b"), &none, true, |_| false);
            assert_eq!(now, Verdict::Spared(Why::OtherDomain));
        }
    }

    #[test]
    fn a_host_that_lost_its_lease_and_may_live_is_spared() {
        let mut lost = of("lost", "d", "m", "b");
        assert_eq!(verdict(&lost), Verdict::Dead);
        lost.insert(labels::HOST_PID.into(), "42".into());
        let alive = |pid: &str| pid == "42";
        let judged = |labels| judge(labels, &leases(), true, alive);
        assert_eq!(judged(&lost), Verdict::Spared(Why::MayLive));
        // Its lease is there and nobody holds it: that is the proof.
        let mut dead = of("dead", "d", "m", "b");
        dead.insert(labels::HOST_PID.into(), "42".into());
        assert_eq!(judged(&dead), Verdict::Dead);
        // Of an earlier boot no process is left.
        let mut earlier = of("lost", "d", "m", "earlier");
        earlier.insert(labels::HOST_PID.into(), "42".into());
        assert_eq!(judged(&earlier), Verdict::Dead);
    }

    #[test]
    fn a_machine_without_an_id_is_not_told_from_another() {
        let mut none = leases();
        none.me.machine.clear();
        let judged = |instance, domain| {
            let labels = of(instance, domain, "", "earlier");
            judge(&labels, &none, true, |_| false)
        };
        let other = Verdict::Spared(Why::OtherDomain);
        assert_eq!(judged("unseen", "other"), other);
        // A lease in this directory is a proof all the same, and so is its absence.
        assert_eq!(judged("dead", "other"), Verdict::Dead);
        assert_eq!(judged("unseen", "d"), Verdict::Dead);
    }

    #[test]
    fn what_was_to_be_kept_is_kept() {
        let mut labels = of("dead", "d", "m", "b");
        labels.insert(labels::ON_END.into(), labels::KEEP.into());
        assert_eq!(verdict(&labels), Verdict::Spared(Why::Kept));
    }
}
