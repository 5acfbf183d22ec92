//! Everything that runs, for people to look at.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::time::Duration;

use mcp_lifecycle_core::launch::{Remnant, UnknownRemnant};

use super::format::{Contents, Record};
use super::members::{HIDDEN, Inside, inside, is_of};
use super::processes;
use super::shelf;
use super::shelves::Shelves;
use super::sight::Sight;
use crate::answers;
use crate::guardian::process::shim;
use crate::identity::Cookie;
use crate::inventory::{HostState, Inventory, KnownHost, KnownProcess, KnownServer};
use crate::sys;
use crate::sys::stat::is_gone;

/// Looks at all hosts' ledgers, and at who carries an identity.
pub(crate) fn inventory() -> io::Result<Inventory> {
    let sight = Sight::look()?;
    let mut inventory = Inventory::default();
    let shelves = Shelves::look(&sight, &mut inventory.unknown);
    let mut servers = BTreeMap::new();
    let living = shelves.living.iter().map(|it| (it, HostState::Alive));
    let dead = shelves
        .dead
        .iter()
        .map(|it| (&it.contents, HostState::Dead));
    let mut states = BTreeMap::new();
    for (contents, state) in living.chain(dead) {
        states.insert(contents.host.clone(), state);
        // The numbers in it mean others here.
        let is_here = sight.covers(contents.namespace).is_ok();
        for record in contents.servers.iter().filter(|_| is_here) {
            let server = recorded(contents, record, state, sight.counts_as(contents.namespace));
            servers.insert(server.cookie.token(), server);
        }
    }
    sight.covers(sight.namespace).map_err(io::Error::other)?;
    let scene = processes::look(&[])?;
    for process in scene.processes.values() {
        let Some(cookie) = scene.server_of(process) else {
            continue;
        };
        if cookie.host().boot_id() != sight.boot_id {
            continue;
        }
        let state = states.get(cookie.host()).copied();
        let known = servers.entry(cookie.token());
        let server =
            known.or_insert_with(|| nobody(cookie.clone(), state.unwrap_or(HostState::Unknown)));
        match () {
            // A host that is a server itself has its own host's mark.
            () if process.pid == server.host.pid && !process.is_guardian => {
                server.processes.extend(see(process.pid));
            }
            () if process.pid == server.host.pid => {}
            () if process.is_guardian => server.guardian = Some(process.pid),
            () => server.processes.extend(see(process.pid)),
        }
    }
    for server in servers.values_mut() {
        // Who says nothing, and has no guardian any more.
        let silent = scene.processes.values().filter(|it| {
            !it.is_guardian && scene.server_of(it).is_none() && is_of(server, it, &scene)
        });
        let silent: Vec<_> = silent.filter_map(|it| see(it.pid)).collect();
        server.processes.extend(silent);
        let unknown = |why: String| {
            let record = Remnant::record(
                server.id.clone(),
                format!("server of host {}", server.host.pid),
            );
            UnknownRemnant::new(record, why)
        };
        let inside = match inside(server) {
            Ok(inside) => inside,
            Err(error) => {
                let why = format!("its cgroup cannot be looked into: {error}");
                inventory.unknown.push(unknown(why));
                Inside::default()
            }
        };
        if let Some(why) = &server.unfound {
            inventory.unknown.push(unknown(why.clone()));
        } else if inside.has_hidden {
            inventory.unknown.push(unknown(HIDDEN.to_owned()));
        }
        for pid in inside.pids {
            if server.guardian != Some(pid) && !server.processes.iter().any(|it| it.pid == pid) {
                server.processes.extend(see(pid));
            }
        }
        if let Some(host) = living_host(server) {
            let parent = sys::see(host.parent);
            let is_wrapper = processes::try_is_guardian(host.pid);
            let (name, has_companion) = match &is_wrapper {
                Ok(true) => {
                    let words = command_line(host.pid, host.start_time).unwrap_or_default();
                    (shim::name_in(&words), shim::may_have_companion(&words))
                }
                Ok(false) => (None, false),
                Err(_) => (None, true),
            };
            // One that ended meanwhile has shown nothing of what it was.
            if living_host(server).is_some() {
                server.name = name;
                server.host.is_wrapper = is_wrapper.unwrap_or(false);
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
    // Numbers of another namespace mean others here.
    let process = record.process.filter(|_| is_numbered);
    let leaf = record.in_cgroup.then(|| shelf::find_leaf(contents, record));
    let (leaf, unfound) = match leaf {
        Some(Err(why)) => (None, Some(why)),
        Some(Ok(leaf)) => (leaf, None),
        None => (None, None),
    };
    KnownServer {
        leader: process.map(|(pid, _)| pid),
        recorded: process,
        in_cgroup: record.in_cgroup,
        leaf,
        unfound,
        ..nobody(contents.cookie(*record), state)
    }
}

fn nobody(cookie: Cookie, state: HostState) -> KnownServer {
    KnownServer {
        id: format!("{:016x}", cookie.serial()),
        name: None,
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
        processes: Vec::new(),
        cookie,
        leaf: None,
        unfound: None,
    }
}

/// The process that launched it, if that is still there.
fn living_host(server: &KnownServer) -> Option<sys::Seen> {
    let host = sys::see(server.host.pid)?;
    is_living(&host, server.cookie.host().start_time()).then_some(host)
}

/// Returns whether it is the one that started at this time. One that nobody has reaped yet has ended all the same, and one on its way out shows no more what
/// it executes.
fn is_living(host: &sys::Seen, start_time: u64) -> bool {
    let has_ended = matches!(
        host.state,
        sys::ProcessState::Exiting | sys::ProcessState::Dead
    );
    host.start_time == start_time && !has_ended
}

/// What is known of a process; `None` if it has ended, or cannot be looked at.
pub(super) fn see(pid: u32) -> Option<KnownProcess> {
    try_see(pid).ok()?
}

/// What is known of a process; `None` if it has ended.
///
/// # Errors
///
/// It cannot be looked at.
pub(super) fn try_see(pid: u32) -> io::Result<Option<KnownProcess>> {
    let seen = sys::look_at(pid)?.filter(|seen| seen.state != sys::ProcessState::Dead);
    Ok(seen.map(|seen| {
        let ticks = sys::ticks_since_boot().saturating_sub(seen.start_time);
        KnownProcess {
            pid,
            parent: seen.parent,
            name: seen.name,
            age: sys::of_ticks(ticks),
            memory: answers::one(pid, sys::memory_of).flatten(),
            cpu: sys::cpu_of(pid).unwrap_or(Duration::ZERO),
            is_kept: false,
            start_time: seen.start_time,
        }
    }))
}

/// The words that a process was started with; none if it has ended, or has overwritten them.
///
/// # Errors
///
/// It cannot be asked, or does not answer, which says nothing.
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
    fn a_host_that_is_on_its_way_out_does_not_live() {
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
