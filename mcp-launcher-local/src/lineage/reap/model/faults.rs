//! Wrong rules: each has to be noticed, and by what it does.

use super::explore;
use crate::lineage::reap::hosts::State;
use crate::lineage::reap::kin::{self, Fate, Kin};
use crate::lineage::reap::search::{RULES, Rules};
use crate::lineage::rules::{self, Stopped};
use crate::orphans::verdict::Mark;

const STRANGER: &str = "it is a stranger";
const LIVES: &str = "its host lives";
const HOST: &str = "it is a host that lives";
const SEARCHES: &str = "it searches";
const WATCHER: &str = "it is a host's watcher";
const LEFT: &str = "is LEFT";
const STOPPED: &str = "stays STOPPED";
const SILENT: &str = "is NOT SAID";

#[test]
fn every_wrong_rule_is_noticed() {
    let wrong: [(&str, &[&str], Rules); 12] = [
        (
            "every host that is named is dead",
            &[LIVES],
            Rules {
                state: |_, _, _| State::Dead,
                ..RULES
            },
        ),
        (
            "whoever has the number of a host is that host",
            &[LEFT],
            Rules {
                state: |_, holder, _| match holder {
                    Ok(None) => State::Dead,
                    _ => State::Alive,
                },
                ..RULES
            },
        ),
        (
            "a host that may be another one is dead",
            &[LIVES],
            Rules {
                state: |host, holder, oldest| match (RULES.state)(host, holder, oldest) {
                    State::Unknown(_) => State::Dead,
                    state => state,
                },
                ..RULES
            },
        ),
        (
            "a host of which nothing is certain is passed over",
            &[SILENT],
            Rules {
                judge: |known, sighting, starter| match kin::judge(known, sighting, starter) {
                    (kin, Fate::Unknown(_)) => (kin, Fate::Pass),
                    judged => judged,
                },
                ..RULES
            },
        ),
        (
            "whoever is marked is ended",
            &[LIVES, HOST, SEARCHES],
            Rules {
                judge: |known, sighting, starter| match kin::judge(known, sighting, starter) {
                    (_, Fate::Spare) => (Kin::Orphan, Fate::End),
                    judged => judged,
                },
                ..RULES
            },
        ),
        (
            "who says nothing is left alone, whoever started it",
            &[LEFT],
            Rules {
                judge: |known, sighting, starter| {
                    let starter = starter.filter(|starter| *starter != Kin::Orphan);
                    kin::judge(known, sighting, starter)
                },
                ..RULES
            },
        ),
        (
            "who cannot be read and has lost its starter is ended",
            &[STRANGER, LIVES],
            Rules {
                judge: |known, sighting, starter| match kin::judge(known, sighting, starter) {
                    (Kin::Unlinked, Fate::Unknown(_)) => (Kin::Orphan, Fate::End),
                    judged => judged,
                },
                ..RULES
            },
        ),
        (
            "whom a living host has started is ended where it says nothing",
            &[STRANGER, LIVES, HOST, WATCHER],
            Rules {
                judge: |known, sighting, starter| {
                    let said = sighting.said.as_ref();
                    let says_nothing =
                        said.is_some_and(|said| matches!(said.mark, Mark::Unseen(_)));
                    match kin::judge(known, sighting, starter) {
                        (_, Fate::Pass) if says_nothing => (Kin::Orphan, Fate::End),
                        judged => judged,
                    }
                },
                ..RULES
            },
        ),
        (
            "whoever is held is killed, whatever the last look says",
            &[LIVES, HOST, STRANGER],
            Rules {
                is_let_go: |_| false,
                ..RULES
            },
        ),
        (
            "the number means the process that it meant",
            &[STRANGER, LIVES, HOST, WATCHER, SEARCHES, STOPPED],
            Rules {
                hunt: rules::Rules {
                    is_same: |_, _| true,
                    after_stop: |_, _| Stopped::Held,
                    ..rules::RULES
                },
                ..RULES
            },
        ),
        (
            "who was stopped is who was meant",
            &[STRANGER, LIVES, HOST, WATCHER, SEARCHES, STOPPED],
            Rules {
                hunt: rules::Rules {
                    after_stop: |_, _| Stopped::Held,
                    ..rules::RULES
                },
                ..RULES
            },
        ),
        (
            "a look that is not whole has shown all",
            &[LEFT, SILENT],
            Rules {
                hunt: rules::Rules {
                    is_settled: |new, _| new == 0,
                    ..rules::RULES
                },
                ..RULES
            },
        ),
    ];
    for (what, as_what, rules) in wrong {
        match explore(0, 100_000, rules) {
            Ok(()) => panic!("unnoticed: {what}"),
            Err(wrong) => assert!(
                as_what.iter().any(|as_what| wrong.contains(as_what)),
                "{what}: {wrong}"
            ),
        }
    }
}
