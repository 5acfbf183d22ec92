//! Who is left of a dead host: by mark, and by the link to one with a mark. Pure.

use std::collections::BTreeMap;

use super::hosts::State;
use super::{Fact, Said, Searcher};
use crate::identity::HostId;
use crate::orphans::verdict::{DeadHost, Hosts, Mark, Process, Scene, Verdict};

/// The first process of the machine, which starts applications and services, and what is older: the kernel.
const FIRST: u64 = 1;

/// A process, as a look has shown it.
#[derive(Debug, Clone)]
pub(super) struct Sighting {
    pub(super) fact: Fact,
    /// `None` of zombies, and of other users' processes.
    pub(super) said: Option<Said>,
}

/// The relation of a process to dead hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kin {
    /// Left of one.
    Orphan,
    /// Of none, and so is whom it started.
    Stranger,
    /// Who started it was not seen.
    Unlinked,
}

/// What to do about a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fate {
    End,
    /// Leave it alone, and say so.
    Spare,
    /// It may be left of a dead host, which cannot be told for this reason. Leave it alone, and say so.
    Unknown(String),
    /// None of our business.
    Pass,
}

/// What is known of all.
pub(super) struct Known<'a> {
    pub(super) hosts: Hosts<'a>,
    pub(super) scene: Scene,
    /// Hosts of which it cannot be told whether they live.
    pub(super) doubtful: BTreeMap<&'a HostId, &'a str>,
}

/// The decision about one process; `starter` is that about who started it, if that was seen.
pub(super) type Judge = fn(&Known<'_>, &Sighting, Option<Kin>) -> (Kin, Fate);

/// Everybody, each after who started it: ids are given out in order.
pub(super) fn judge_all(
    sightings: &BTreeMap<u64, Sighting>,
    states: &BTreeMap<HostId, State>,
    searcher: &Searcher<'_>,
    judge: Judge,
) -> BTreeMap<u64, Fate> {
    let dead: Vec<DeadHost> = states
        .iter()
        .filter(|(_, state)| **state == State::Dead)
        .map(|(id, _)| DeadHost {
            id: id.clone(),
            namespace: 0,
            servers: Vec::new(),
        })
        .collect();
    let doubtful = states.iter().filter_map(|(id, state)| match state {
        State::Unknown(why) => Some((id, why.as_str())),
        State::Dead | State::Alive => None,
    });
    let known = Known {
        hosts: Hosts {
            this: searcher.this,
            this_pid: searcher.pid,
            boot_id: searcher.boot_id,
            dead: &dead,
        },
        scene: scene(sightings, states),
        doubtful: doubtful.collect(),
    };
    let mut kin = BTreeMap::new();
    let mut fates = BTreeMap::new();
    for (unique, sighting) in sightings {
        let started_by = sighting.fact.seen.started_by;
        let starter = match started_by <= FIRST {
            true => Some(Kin::Stranger),
            false => kin.get(&started_by).copied(),
        };
        let (own, fate) = judge(&known, sighting, starter);
        kin.insert(*unique, own);
        fates.insert(*unique, fate);
    }
    fates
}

/// Who lives, and who of them is a host: by a mark that names it, or by its watcher.
fn scene(sightings: &BTreeMap<u64, Sighting>, states: &BTreeMap<HostId, State>) -> Scene {
    let living = sightings.values();
    let living = living.filter(|sighting| !sighting.fact.seen.is_zombie);
    let mut scene = Scene::default();
    for sighting in living {
        let process = process(sighting);
        let is_watcher = sighting.said.as_ref().is_some_and(|said| said.is_watcher);
        if is_watcher && process.parent > 1 {
            scene.hosts.insert(process.parent);
        }
        scene.processes.insert(process.pid, process);
    }
    // One that may be a host is taken for one.
    let hosts = states.iter().filter(|(_, state)| **state != State::Dead);
    scene.hosts.extend(hosts.map(|(id, _)| id.pid()));
    scene
}

fn process(sighting: &Sighting) -> Process {
    let mark = sighting.said.as_ref().map(|said| said.mark.clone());
    Process {
        pid: sighting.fact.seen.pid.as_u32(),
        parent: sighting.fact.parent,
        start_time: sighting.fact.start_time,
        name: sighting.fact.name.clone(),
        is_guardian: false,
        stays: false,
        container: None,
        mark: mark.unwrap_or(Mark::None),
    }
}

pub(super) fn judge(known: &Known<'_>, sighting: &Sighting, starter: Option<Kin>) -> (Kin, Fate) {
    // What it carried is not told any more.
    if sighting.fact.seen.is_zombie {
        return match starter {
            Some(Kin::Orphan) => (Kin::Orphan, Fate::Pass),
            _ => (Kin::Unlinked, Fate::Pass),
        };
    }
    if sighting.said.as_ref().is_some_and(|said| said.is_watcher) {
        // It ends the groups of a host that has died, and then itself.
        return (Kin::Stranger, Fate::Pass);
    }
    let process = process(sighting);
    match &process.mark {
        Mark::Cookie(_) | Mark::Unreadable => by_mark(known, &process),
        Mark::None | Mark::Unseen(_) | Mark::Passing => match starter {
            Some(Kin::Orphan) => match known.hosts.judge_linked(&process, &known.scene) {
                Verdict::End => (Kin::Orphan, Fate::End),
                _ => (Kin::Stranger, Fate::Spare),
            },
            Some(Kin::Stranger) => (Kin::Stranger, Fate::Pass),
            Some(Kin::Unlinked) | None => unlinked(known, &process, sighting.said.is_some()),
        },
    }
}

fn by_mark(known: &Known<'_>, process: &Process) -> (Kin, Fate) {
    if let Mark::Cookie(cookie) = &process.mark
        && let Some(why) = known.doubtful.get(cookie.host())
    {
        return (Kin::Stranger, Fate::Unknown((*why).to_owned()));
    }
    match known.hosts.judge(process, &known.scene) {
        Verdict::End | Verdict::Wait => (Kin::Orphan, Fate::End),
        Verdict::Spare => (Kin::Stranger, Fate::Spare),
        Verdict::Doubt | Verdict::Pass => (Kin::Stranger, Fate::Pass),
    }
}

/// Who started it has gone, and may have been a host or a server.
fn unlinked(known: &Known<'_>, process: &Process, is_own: bool) -> (Kin, Fate) {
    match &process.mark {
        // It says that it is nobody's.
        Mark::None if is_own => (Kin::Stranger, Fate::Pass),
        Mark::Unseen(why) if !known.hosts.is_above_or_host(process.pid, &known.scene) => {
            let why = format!("{why}, and whoever started it has ended");
            (Kin::Unlinked, Fate::Unknown(why))
        }
        // Another user's, or one that a host needs.
        _ => (Kin::Unlinked, Fate::Pass),
    }
}
