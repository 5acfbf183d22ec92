//! Whose a container is, and whether that host lives. Pure.

use std::collections::{BTreeSet, HashMap};

use crate::labels;
use crate::lease::{Other, Owner};

/// What can be seen of the hosts of this machine.
#[derive(Debug)]
pub(super) struct Leases {
    me: Owner,
    /// The instances whose leases are held.
    living: BTreeSet<String>,
    /// Those whose leases nobody held, so that we hold them now.
    dead: BTreeSet<String>,
}

impl Leases {
    pub(super) fn new(me: Owner, others: &[Other]) -> Self {
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

/// What is to become of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Its host is proven dead.
    Dead,
    /// It is not touched.
    Spared(Why),
}

/// Why a container is not touched.
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
    /// Its server's policy was to leave it.
    Kept,
}

/// Judges a container by its labels.
///
/// A missing lease is a dead host only within a domain that we see. A host of
/// an earlier boot is dead in any domain, if the engine is behind a socket of
/// this machine: machine ids may be cloned, so that they say nothing about
/// the other users of an engine on the network.
pub(super) fn judge(labels: &HashMap<String, String>, leases: &Leases, local: bool) -> Verdict {
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
    let earlier_boot = local && !boot.is_empty() && !me.boot.is_empty() && boot != me.boot;
    let ours = domain == me.domain && !domain.is_empty();
    if !ours && !earlier_boot {
        return Verdict::Spared(Why::OtherDomain);
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
            me: Owner {
                domain: "d".into(),
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
        judge(labels, &leases(), true)
    }

    #[test]
    fn only_a_dead_host_that_can_be_judged_loses_its_containers() {
        assert_eq!(verdict(&of("dead", "d", "m", "b")), Verdict::Dead);
        let spared = [
            (of("alive", "d", "m", "b"), Why::Living),
            (of("dead", "d", "other", "b"), Why::OtherMachine),
            (of("dead", "other", "m", "b"), Why::OtherDomain),
            (HashMap::new(), Why::Unreadable),
        ];
        for (labels, why) in spared {
            assert_eq!(verdict(&labels), Verdict::Spared(why));
        }
    }

    #[test]
    fn a_host_that_came_between_the_leases_and_the_list_lives() {
        let new = of("new", "d", "m", "b");
        assert_eq!(verdict(&new), Verdict::Dead);
        // The dead one's lease is there as well: it is ours to forget.
        let now = ["new", "dead"].map(str::to_owned).into();
        let leases = leases().after_a_list(now);
        assert_eq!(judge(&new, &leases, true), Verdict::Spared(Why::Living));
        let dead = of("dead", "d", "m", "b");
        assert_eq!(judge(&dead, &leases, true), Verdict::Dead);
        let alive = of("alive", "d", "m", "b");
        assert_eq!(judge(&alive, &leases, true), Verdict::Spared(Why::Living));
    }

    #[test]
    fn an_earlier_boot_is_dead_where_the_engine_is_local() {
        let earlier = of("dead", "other", "m", "earlier");
        assert_eq!(verdict(&earlier), Verdict::Dead);
        let remote = judge(&earlier, &leases(), false);
        assert_eq!(remote, Verdict::Spared(Why::OtherDomain));
    }

    #[test]
    fn without_leases_only_an_earlier_boot_is_dead() {
        let mut none = Leases::new(leases().me, &[]);
        none.me.domain.clear();
        let earlier = of("dead", "d", "m", "earlier");
        assert_eq!(judge(&earlier, &none, true), Verdict::Dead);
        for domain in ["d", ""] {
            let now = judge(&of("dead", domain, "m", "b"), &none, true);
            assert_eq!(now, Verdict::Spared(Why::OtherDomain));
        }
    }

    #[test]
    fn what_was_to_be_kept_is_kept() {
        let mut labels = of("dead", "d", "m", "b");
        labels.insert(labels::ON_END.into(), labels::KEEP.into());
        assert_eq!(verdict(&labels), Verdict::Spared(Why::Kept));
    }
}
