//! Wrong rules, and wrong ways to ask: each has to be noticed.

use super::edge::Ways;
use super::explore;
use crate::lineage::Witness;
use crate::lineage::rules::{Kin, RULES, Rules, Stopped};

const STRANGER: &str = ", a stranger";
const UNKNOWN: &str = "is linked, and not known";
const KEPT: &str = "is remembered, and has long gone";
const RUNS: &str = "runs while others are killed";
const STOPPED: &str = "is a stranger, and stays stopped";

/// The fault was noticed, and by what it does.
fn told(what: &str, as_what: &[&str], outcome: Result<(), String>) {
    match outcome {
        Ok(()) => panic!("unnoticed: {what}"),
        Err(wrong) => assert!(
            as_what.iter().any(|as_what| wrong.contains(as_what)),
            "{what}: {wrong}"
        ),
    }
}

#[test]
fn every_wrong_rule_is_noticed() {
    let rules: [(&str, &[&str], Rules); 12] = [
        (
            "whoever has lost its link is a member",
            &[STRANGER],
            Rules {
                is_vouched: |_, _, _| true,
                ..RULES
            },
        ),
        (
            "whoever has lost its link is none, whatever it carries",
            &[UNKNOWN],
            Rules {
                is_vouched: |_, _, _| false,
                ..RULES
            },
        ),
        (
            "what cannot be read is a witness",
            &[STRANGER],
            Rules {
                is_vouched: |process, witness, after| {
                    witness != Witness::Other && (RULES.is_same)(process, after)
                },
                ..RULES
            },
        ),
        (
            "the mark of another server is a witness",
            &[STRANGER],
            Rules {
                is_vouched: |process, witness, after| {
                    witness != Witness::Hidden && (RULES.is_same)(process, after)
                },
                ..RULES
            },
        ),
        (
            "whose mark it was is not asked again",
            &[STRANGER],
            Rules {
                is_vouched: |_, witness, _| witness == Witness::Ours,
                ..RULES
            },
        ),
        (
            "whoever carries the mark is a member, however old who started it",
            &[STRANGER],
            Rules {
                kin: |process, server, starter| match (RULES.kin)(process, server, starter) {
                    Kin::Stranger => Kin::Unlinked,
                    kin => kin,
                },
                ..RULES
            },
        ),
        (
            "who was started by a member that has died is a stranger",
            &[UNKNOWN],
            Rules {
                may_forget: |_, _| true,
                ..RULES
            },
        ),
        (
            "the dead are kept for ever",
            &[KEPT],
            Rules {
                may_forget: |_, _| false,
                ..RULES
            },
        ),
        (
            "the number means the process that it meant",
            &[STRANGER],
            Rules {
                is_same: |_, _| true,
                after_stop: |_, _| Stopped::Held,
                ..RULES
            },
        ),
        (
            "who was stopped is who was meant",
            &[STRANGER, STOPPED],
            Rules {
                after_stop: |_, _| Stopped::Held,
                ..RULES
            },
        ),
        (
            "a look that is not whole has shown all",
            &[UNKNOWN, RUNS],
            Rules {
                is_settled: |new, _| new == 0,
                ..RULES
            },
        ),
        (
            "one look has shown all",
            &[UNKNOWN, RUNS],
            Rules {
                is_settled: |_, is_whole| is_whole,
                ..RULES
            },
        ),
    ];
    for (what, as_what, rules) in rules {
        told(what, as_what, explore(100_000, rules, Ways::default()));
    }
}

#[test]
fn every_wrong_way_to_ask_is_noticed() {
    let right = Ways::default();
    let ways: [(&str, &[&str], Ways); 5] = [
        (
            "zombies are not asked",
            &[UNKNOWN],
            Ways {
                asks_zombies: false,
                ..right
            },
        ),
        (
            "the parent of today has started it",
            &[UNKNOWN],
            Ways {
                links_stay: false,
                ..right
            },
        ),
        (
            "nobody is stopped",
            &[RUNS],
            Ways {
                stops: false,
                ..right
            },
        ),
        (
            "a stranger that was stopped stays so",
            &[STOPPED],
            Ways {
                continues: false,
                ..right
            },
        ),
        (
            "a list that was cut short is called whole",
            &[UNKNOWN, RUNS],
            Ways {
                owns_up: false,
                ..right
            },
        ),
    ];
    for (what, as_what, ways) in ways {
        told(what, as_what, explore(100_000, RULES, ways));
    }
}
