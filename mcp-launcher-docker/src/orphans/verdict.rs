//! Judges a container by its host. Pure.

use std::collections::BTreeSet;

use crate::labels::{self, Host};
use crate::ledger::ForeignLedger;
use crate::machine;

#[derive(Debug, Clone)]
pub(super) struct Me {
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

#[derive(Debug)]
pub(super) struct Ledgers {
    me: Me,
    living: BTreeSet<String>,
    /// The instances with a ledger that was not held, and is now held by us.
    dead: BTreeSet<String>,
}

impl Ledgers {
    pub(super) fn new(me: Me, others: &[ForeignLedger]) -> Self {
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

    /// Updates the ledgers after containers were listed. A host takes its ledger before it creates a
    /// container, so the ledger of every listed container's host is now visible.
    pub(super) fn after_a_list(&self, instances: BTreeSet<String>) -> Self {
        let late = instances.difference(&self.dead).cloned();
        Self {
            me: self.me.clone(),
            living: self.living.iter().cloned().chain(late).collect(),
            dead: self.dead.clone(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Dead,
    Spared(Why),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    Unreadable,
    OtherMachine,
    OtherDomain,
    Living,
    /// Its host's ledger is gone, but a process with its pid lives: a cleaner of temporary files may
    /// have removed the ledger.
    MayLive,
    Kept,
}

/// Judges a container by the labels of one of its hosts.
///
/// A host is dead if its ledger is not held, or if it has no ledger in a visible domain. A host of an
/// earlier boot is dead in any domain if the container `rests`: it does not run, and the engine is
/// behind a socket of this machine. (Machine IDs may be cloned or empty, and a socket may lead to
/// another machine, but a running container is not from an earlier boot of the engine's machine.)
///
/// If there is no ledger, a living process with the host's pid, by `is_alive`, spares the container.
pub(super) fn judge(
    host: &Host<'_>,
    ledgers: &Ledgers,
    rests: bool,
    is_alive: impl Fn(&str) -> bool,
) -> Verdict {
    let instance = host.instance;
    let (Some(domain), Some(machine), Some(boot), Some(on_end)) = (
        host.get(labels::DOMAIN),
        host.get(labels::MACHINE),
        host.get(labels::BOOT),
        host.get(labels::ON_END),
    ) else {
        return Verdict::Spared(Why::Unreadable);
    };
    let me = &ledgers.me;
    if machine != me.machine {
        return Verdict::Spared(Why::OtherMachine);
    }
    if ledgers.living.contains(instance) {
        return Verdict::Spared(Why::Living);
    }
    let are_known = !machine.is_empty() && !boot.is_empty() && !me.boot.is_empty();
    let earlier_boot = rests && are_known && boot != me.boot;
    // A ledger that we hold is in a visible directory, whatever its domain was.
    let is_dead = ledgers.dead.contains(instance);
    let ours = is_dead || me.domains.contains(domain) && !domain.is_empty();
    if !ours && !earlier_boot {
        return Verdict::Spared(Why::OtherDomain);
    }
    let same_boot = !earlier_boot && boot == me.boot;
    if same_boot && !is_dead && host.get(labels::HOST_PID).is_some_and(is_alive) {
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
    use crate::labels::{hosts, key};
    use std::collections::HashMap;

    fn ledgers() -> Ledgers {
        Ledgers {
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
            (labels::DOMAIN, domain),
            (labels::MACHINE, machine),
            (labels::BOOT, boot),
            (labels::ON_END, labels::END),
            (labels::LAUNCH, "l"),
        ]
        .map(|(field, value)| (key(instance, field), value.to_owned()))
        .into()
    }

    /// The verdict on the only host.
    fn judge(
        labels: &HashMap<String, String>,
        ledgers: &Ledgers,
        rests: bool,
        is_alive: impl Fn(&str) -> bool,
    ) -> Verdict {
        let [host] = &hosts(labels)[..] else {
            panic!("{labels:?}");
        };
        super::judge(host, ledgers, rests, is_alive)
    }

    fn verdict(labels: &HashMap<String, String>) -> Verdict {
        judge(labels, &ledgers(), true, |_| false)
    }

    #[test]
    fn only_a_dead_host_that_can_be_judged_loses_its_containers() {
        assert_eq!(verdict(&of("dead", "d", "m", "b")), Verdict::Dead);
        let spared = [
            (of("alive", "d", "m", "b"), Why::Living),
            (of("dead", "d", "other", "b"), Why::OtherMachine),
            (of("unseen", "other", "m", "b"), Why::OtherDomain),
            (
                [(key("dead", labels::LAUNCH), "l".to_owned())].into(),
                Why::Unreadable,
            ),
        ];
        for (labels, why) in spared {
            assert_eq!(verdict(&labels), Verdict::Spared(why));
        }
    }

    /// The name of the directory was lost, and another host made up a new one.
    #[test]
    fn a_ledger_that_is_there_and_not_held_is_the_proof_whatever_its_directory_is_called() {
        assert_eq!(verdict(&of("dead", "other", "m", "b")), Verdict::Dead);
        let alive = verdict(&of("alive", "other", "m", "b"));
        assert_eq!(alive, Verdict::Spared(Why::Living));
    }

    #[test]
    fn a_host_that_came_between_the_ledgers_and_the_list_lives() {
        let new = of("new", "d", "m", "b");
        assert_eq!(verdict(&new), Verdict::Dead);
        // The dead one's ledger is there as well: it is ours to forget.
        let now = ["new", "dead"].map(str::to_owned).into();
        let ledgers = ledgers().after_a_list(now);
        assert_eq!(
            judge(&new, &ledgers, true, |_| false),
            Verdict::Spared(Why::Living)
        );
        let dead = of("dead", "d", "m", "b");
        assert_eq!(judge(&dead, &ledgers, true, |_| false), Verdict::Dead);
        let alive = of("alive", "d", "m", "b");
        assert_eq!(
            judge(&alive, &ledgers, true, |_| false),
            Verdict::Spared(Why::Living)
        );
    }

    #[test]
    fn an_earlier_boot_is_dead_where_the_engine_is_local() {
        let earlier = of("unseen", "other", "m", "earlier");
        assert_eq!(verdict(&earlier), Verdict::Dead);
        let remote = judge(&earlier, &ledgers(), false, |_| false);
        assert_eq!(remote, Verdict::Spared(Why::OtherDomain));
    }

    #[test]
    fn without_ledgers_only_an_earlier_boot_is_dead() {
        let mut none = Ledgers::new(ledgers().me, &[]);
        none.me.domains.clear();
        let earlier = of("dead", "d", "m", "earlier");
        assert_eq!(judge(&earlier, &none, true, |_| false), Verdict::Dead);
        for domain in ["d", ""] {
            let now = judge(&of("dead", domain, "m", "b"), &none, true, |_| false);
            assert_eq!(now, Verdict::Spared(Why::OtherDomain));
        }
    }

    #[test]
    fn a_host_that_lost_its_ledger_and_may_live_is_spared() {
        let mut lost = of("lost", "d", "m", "b");
        assert_eq!(verdict(&lost), Verdict::Dead);
        lost.insert(key("lost", labels::HOST_PID), "42".into());
        let alive = |pid: &str| pid == "42";
        let judged = |labels| judge(labels, &ledgers(), true, alive);
        assert_eq!(judged(&lost), Verdict::Spared(Why::MayLive));
        // Its ledger is there and nobody holds it: that is the proof.
        let mut dead = of("dead", "d", "m", "b");
        dead.insert(key("dead", labels::HOST_PID), "42".into());
        assert_eq!(judged(&dead), Verdict::Dead);
        // Of an earlier boot no process is left, also where that is not what is judged by.
        let mut earlier = of("lost", "d", "m", "earlier");
        earlier.insert(key("lost", labels::HOST_PID), "42".into());
        assert_eq!(judged(&earlier), Verdict::Dead);
        let runs = judge(&earlier, &ledgers(), false, alive);
        assert_eq!(runs, Verdict::Dead);
    }

    #[test]
    fn without_its_boot_a_host_is_not_of_an_earlier_one() {
        let other = Verdict::Spared(Why::OtherDomain);
        assert_eq!(verdict(&of("unseen", "other", "m", "")), other);
        let mut none = ledgers();
        none.me.boot.clear();
        let earlier = of("unseen", "other", "m", "earlier");
        assert_eq!(judge(&earlier, &none, true, |_| false), other);
    }

    #[test]
    fn a_host_without_a_domain_is_in_none_of_ours() {
        let mut none = ledgers();
        none.me.domains.insert(String::new());
        let nameless = judge(&of("unseen", "", "m", "b"), &none, true, |_| false);
        assert_eq!(nameless, Verdict::Spared(Why::OtherDomain));
    }

    #[test]
    fn a_machine_without_an_id_is_not_told_from_another() {
        let mut none = ledgers();
        none.me.machine.clear();
        let judged = |instance, domain| {
            let labels = of(instance, domain, "", "earlier");
            judge(&labels, &none, true, |_| false)
        };
        let other = Verdict::Spared(Why::OtherDomain);
        assert_eq!(judged("unseen", "other"), other);
        // A ledger in this directory is a proof all the same, and so is its absence.
        assert_eq!(judged("dead", "other"), Verdict::Dead);
        assert_eq!(judged("unseen", "d"), Verdict::Dead);
    }

    #[test]
    fn what_was_to_be_kept_is_kept() {
        let mut labels = of("dead", "d", "m", "b");
        labels.insert(key("dead", labels::ON_END), labels::KEEP.into());
        assert_eq!(verdict(&labels), Verdict::Spared(Why::Kept));
    }
}
