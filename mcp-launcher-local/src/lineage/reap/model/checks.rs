//! What has to hold after a search, told by what is true.

use std::collections::BTreeSet;

use mcp_lifecycle_core::launch::{ReapReport, Remnant};

use super::world::{INIT, Label, Proc, World};

/// Those who have to be gone when nothing happens but the search: who says that it is of a host that is certain to be
/// dead, and whom it has started.
pub(super) fn to_end(world: &World) -> Vec<u64> {
    let processes = world.processes.iter();
    let to_end = processes
        .filter(|(_, one)| !one.is_zombie && one.is_own && !one.is_stuck && is_left(world, one));
    to_end.map(|(_, one)| one.unique).collect()
}

fn is_left(world: &World, one: &Proc) -> bool {
    if one.is_zombie {
        return is_started_by_left(world, one);
    }
    if one.is_watcher || is_near_a_host(world, one) {
        return false;
    }
    match (one.is_own && one.is_readable, one.label) {
        (true, Label::Of(host)) => {
            is_certain(world, host) && one.start >= world.hosts[host].0.start_time()
        }
        (true, Label::Garbage | Label::OtherBoot(_)) => false,
        (true, Label::None) | (false, _) => is_started_by_left(world, one),
    }
}

fn is_started_by_left(world: &World, one: &Proc) -> bool {
    let starter = world.by_unique(one.started_by);
    starter.is_some_and(|(_, starter)| is_left(world, starter))
}

/// Nobody has its number, or somebody who cannot be this host.
fn is_certain(world: &World, host: usize) -> bool {
    let (id, _) = &world.hosts[host];
    let servers = world.processes.values().filter(|one| {
        one.is_own && one.is_readable && !one.is_zombie && one.label == Label::Of(host)
    });
    let oldest = servers.map(|one| one.unique).min();
    match world.processes.get(&id.pid()) {
        None => true,
        Some(holder) if holder.is_zombie => true,
        Some(holder) => {
            let is_another = !holder.is_own || holder.start != id.start_time();
            is_another && oldest.is_some_and(|oldest| holder.unique > oldest)
        }
    }
}

/// It is a host that lives or may live, the one who searches, above or below one.
fn is_near_a_host(world: &World, one: &Proc) -> bool {
    let mut hosts = world.processes.iter().filter(|(pid, other)| {
        let is_named = || world.hosts.iter().any(|(id, _)| id.pid() == **pid);
        !other.is_zombie && (**pid == world.searcher || other.host.is_some() || is_named())
    });
    hosts.any(|(_, host)| is_below(world, one, host) || is_below(world, host, one))
}

fn is_below(world: &World, one: &Proc, above: &Proc) -> bool {
    let mut at = one;
    loop {
        if at.unique == above.unique {
            return true;
        }
        match world.by_unique(at.parent) {
            Some((_, parent)) => at = parent,
            None => return false,
        }
    }
}

pub(super) fn are_gone(world: &World, expected: &[u64]) -> Result<(), String> {
    let left = expected.iter().find_map(|unique| {
        let (pid, process) = world.by_unique(*unique)?;
        (!process.is_zombie).then_some(pid)
    });
    left.map_or(Ok(()), |pid| Err(format!("{pid} is LEFT")))
}

pub(super) fn nobody_stays_stopped(world: &World) -> Result<(), String> {
    let mut processes = world.processes.iter();
    let stopped = processes.find(|(_, one)| one.is_stopped);
    stopped.map_or(Ok(()), |(pid, _)| Err(format!("{pid} stays STOPPED")))
}

/// Whoever is said to have ended has, and each is said once.
pub(super) fn report_is_true(world: &World, report: &ReapReport) -> Result<(), String> {
    let lives = |one: &&Remnant| {
        let found = one
            .name
            .parse()
            .ok()
            .and_then(|unique| world.by_unique(unique));
        found.is_some_and(|(_, process)| !process.is_zombie)
    };
    if let Some(one) = report.ended.iter().find(lives) {
        return Err(format!("{one} is said to have ended, and LIVES"));
    }
    let unknown = report.unknown.iter().map(|unknown| &unknown.what);
    let all = report.ended.iter().chain(&report.failed);
    let all: Vec<&Remnant> = all.chain(&report.spared).chain(unknown).collect();
    let names: BTreeSet<&String> = all.iter().map(|one| &one.name).collect();
    match names.len() == all.len() {
        true => Ok(()),
        false => Err("somebody is said TWICE".to_owned()),
    }
}

/// Whoever may be left of a host, and lives, is named.
pub(super) fn the_rest_is_said(world: &World, report: &ReapReport) -> Result<(), String> {
    let unknown = report.unknown.iter().map(|unknown| &unknown.what.name);
    let said = report.spared.iter().chain(&report.failed);
    let said: Vec<&String> = said.map(|one| &one.name).chain(unknown).collect();
    for (pid, one) in &world.processes {
        if one.is_zombie || !one.is_own || one.is_watcher {
            continue;
        }
        let is_marked = one.is_readable && one.label != Label::None;
        // Whoever needs it is there, or may be.
        let is_hidden = !one.is_readable
            && one.started_by > INIT
            && world.by_unique(one.started_by).is_none()
            && !is_near_a_host(world, one);
        if (is_marked || is_hidden) && !said.contains(&&one.unique.to_string()) {
            return Err(format!("{pid} is NOT SAID"));
        }
    }
    Ok(())
}
