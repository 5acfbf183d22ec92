//! Lists the servers that run, for administration tools.

use std::collections::BTreeMap;
use std::{fs, io};

use super::foreign_ledgers::{self, Ledgers};
use super::format::{Contents, Record};
use super::known::{HostState, Inventory, KnownHost, KnownProcess, KnownServer};
use super::members::theirs;
use super::visibility::Visibility;
use super::{directory, processes};
use crate::answers;
use crate::identity::Cookie;
use crate::program::shim;
use crate::sys::{self, is_gone};
use mcp_lifecycle_core::launch::{Remnant, UnknownRemnant};

/// Lists all of this user's servers, by all hosts' ledgers and the identities of all processes.
/// Blocks, for a few milliseconds per hundred processes of the machine.
pub fn inventory() -> io::Result<Inventory> {
    let visibility = Visibility::look()?;
    let mut inventory = Inventory::default();
    let ledgers = Ledgers::look(directory::candidates(), &visibility, &mut inventory.unknown);
    let mut servers = BTreeMap::new();
    let living = ledgers.living.iter().map(|it| (it, HostState::Alive));
    let dead = ledgers
        .dead
        .iter()
        .map(|it| (&it.contents, HostState::Dead));
    let mut states = BTreeMap::new();
    for (contents, state) in living.chain(dead) {
        states.insert(contents.host.clone(), state);
        // Otherwise its pids mean other processes here.
        let is_here = visibility.covers(contents.namespace).is_ok();
        for record in contents.servers.iter().filter(|_| is_here) {
            let server = recorded(
                contents,
                record,
                state,
                visibility.counts_as(contents.namespace),
            );
            servers.insert(server.cookie.token(), server);
        }
    }
    visibility
        .covers(visibility.namespace)
        .map_err(io::Error::other)?;
    let scene = processes::look(&[])?;
    for process in scene.processes.values() {
        let Some(cookie) = scene.server_of(process) else {
            continue;
        };
        if cookie.host().boot_id() != visibility.boot_id {
            continue;
        }
        let state = states.get(cookie.host()).copied();
        let known = servers.entry(cookie.token());
        let server = known
            .or_insert_with(|| unrecorded(cookie.clone(), state.unwrap_or(HostState::Unknown)));
        // The shim is the same program.
        if process.is_guardian && process.pid != server.host.pid {
            server.guardian = Some(process.pid);
        }
    }
    for server in servers.values_mut() {
        let (found, reasons) = theirs(server, &scene);
        server.processes = found.into_keys().filter_map(see).collect();
        for why in reasons.into_iter().chain(server.unfound.clone()) {
            let host = format!("server of host {}", server.host.pid);
            let record = Remnant::record(server.id.clone(), host);
            inventory.unknown.push(UnknownRemnant::new(record, why));
        }
        if let Some(host) = living_host(server) {
            let parent = sys::see(host.parent);
            let is_shim = processes::try_is_guardian(host.pid);
            let has_words = matches!(is_shim, Ok(true)).then(|| server.host_command_line());
            let words = has_words.unwrap_or_default();
            let may_have = |is_shim: &bool| *is_shim && shim::may_have_companion(&words);
            let has_companion = server.in_group || is_shim.as_ref().map_or(true, may_have);
            // If it ended meanwhile, what was read of it proves nothing.
            if living_host(server).is_some() {
                server.name = shim::name_in(&words);
                server.log = shim::log_in(&words);
                server.host.is_wrapper = server.in_group || is_shim.unwrap_or(false);
                server.host.has_companion = has_companion;
                server.host.parent = parent.map(|parent| (parent.pid, parent.name));
                server.host.name = Some(host.name);
            }
        }
        for process in &mut server.processes {
            let known = scene.processes.get(&process.pid);
            let known = known.filter(|it| it.start_time == process.start_time);
            process.is_kept = known.is_some_and(|it| scene.stays(it, server.recorded.into_iter()));
        }
        server
            .processes
            .sort_by_key(|process| (process.start_time, process.pid));
    }
    let is_there = |server: &KnownServer| !server.processes.is_empty();
    inventory.servers = servers.into_values().filter(is_there).collect();
    let key = |server: &KnownServer| {
        (
            server.host.pid,
            server.processes.first().map(|it| it.start_time),
        )
    };
    inventory.servers.sort_by_key(key);
    Ok(inventory)
}

fn recorded(
    contents: &Contents,
    record: &Record,
    state: HostState,
    is_numbered: bool,
) -> KnownServer {
    // Pids of another namespace mean other processes here.
    let process = record.process.filter(|_| is_numbered);
    let leaf = || foreign_ledgers::find_leaf(contents, record);
    let is_lost = record.is_unmarked && state == HostState::Dead;
    let (leaf, unfound) = match (record.in_cgroup || is_lost).then(leaf).transpose() {
        Ok(leaf) => (leaf.flatten(), None),
        Err(why) => (None, Some(why)),
    };
    KnownServer {
        leader: process.map(|(pid, _)| pid),
        recorded: process,
        in_cgroup: record.in_cgroup,
        in_group: record.in_group,
        leaf,
        unfound,
        ..unrecorded(contents.cookie(*record), state)
    }
}

fn unrecorded(cookie: Cookie, state: HostState) -> KnownServer {
    KnownServer {
        id: format!("{:016x}", cookie.serial()),
        name: None,
        log: None,
        host: KnownHost {
            pid: cookie.host().pid(),
            name: None,
            parent: None,
            is_wrapper: false,
            has_companion: false,
            state,
        },
        leader: None,
        recorded: None,
        guardian: None,
        in_cgroup: false,
        in_group: false,
        processes: Vec::new(),
        cookie,
        leaf: None,
        unfound: None,
    }
}

fn living_host(server: &KnownServer) -> Option<sys::Seen> {
    let host = sys::see(server.host.pid)?;
    is_living(&host, server.cookie.host().start_time()).then_some(host)
}

/// Returns whether this is the host that started at this time. An exiting process does not show its
/// program any more.
fn is_living(host: &sys::Seen, start_time: u64) -> bool {
    host.start_time == start_time && !host.has_ended()
}

/// Describes a process; `None` if it has ended or cannot be looked at.
pub(super) fn see(pid: u32) -> Option<KnownProcess> {
    try_see(pid).ok()?
}

/// Describes a process; `None` if it has ended.
pub(super) fn try_see(pid: u32) -> io::Result<Option<KnownProcess>> {
    let seen = sys::look_at(pid)?.filter(|seen| !seen.is_dead());
    Ok(seen.map(|seen| {
        let ticks = sys::ticks_since_boot().saturating_sub(seen.start_time);
        KnownProcess {
            pid,
            parent: seen.parent,
            name: seen.name,
            age: sys::of_ticks(ticks),
            memory: answers::one(pid, sys::memory_of).flatten(),
            cpu: seen.cpu,
            is_kept: false,
            start_time: seen.start_time,
        }
    }))
}

/// Returns the command line of a process; empty if it has ended or has overwritten it. A failure does
/// not mean that there is none.
pub(crate) fn command_line(pid: u32, start_time: u64) -> io::Result<Vec<String>> {
    let read = |pid| fs::read(format!("/proc/{pid}/cmdline"));
    let text = match answers::one(pid, read) {
        Some(Err(error)) if is_gone(&error) => return Ok(Vec::new()),
        Some(text) => text?,
        None => return Err(io::Error::other(answers::NO_ANSWER)),
    };
    let is_it = sys::look_at(pid)?.is_some_and(|seen| seen.start_time == start_time);
    if !is_it || text.is_empty() {
        return Ok(Vec::new());
    }
    let text = text.strip_suffix(b"\0").unwrap_or(&text);
    let words = text.split(|&byte| byte == 0);
    Ok(words
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sys::ProcessState::{Dead, Exiting, Live, Stopped};

    #[test]
    fn an_exiting_host_does_not_live() {
        let own = sys::see(std::process::id()).unwrap();
        let lives = |state| {
            let own = own.clone();
            is_living(&sys::Seen { state, ..own }, own.start_time)
        };
        assert!(lives(Live) && lives(Stopped));
        assert!(!lives(Exiting) && !lives(Dead));
        assert!(!is_living(&own, own.start_time + 1), "it is another one");
    }
}
