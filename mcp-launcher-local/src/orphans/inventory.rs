//! Everything that runs, for people to look at.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::time::Duration;

use super::format::{Contents, Record};
use super::processes;
use super::shelf;
use super::shelves::Shelves;
use super::sight::Sight;
use super::verdict::Mark;
use crate::cgroup::Leaf;
use crate::identity::Cookie;
use crate::inventory::{HostState, Inventory, KnownHost, KnownProcess, KnownServer};
use crate::sys;

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
            let server = recorded(contents, record, state);
            servers.insert(server.cookie.token(), server);
        }
    }
    sight.covers(sight.namespace).map_err(io::Error::other)?;
    for process in processes::look(&[])?.processes.into_values() {
        let Mark::Cookie(cookie) = &process.mark else {
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
        for pid in inside(server) {
            if server.guardian != Some(pid) && !server.processes.iter().any(|it| it.pid == pid) {
                server.processes.extend(see(pid));
            }
        }
        if let Some(host) = living_host(server) {
            let parent = sys::see(host.parent);
            server.host.parent = parent.map(|parent| (parent.pid, parent.name));
            server.host.is_wrapper = processes::is_guardian(host.pid);
            server.host.name = Some(host.name);
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

fn recorded(contents: &Contents, record: &Record, state: HostState) -> KnownServer {
    let leaf = record.in_cgroup.then(|| shelf::find_leaf(contents, record));
    KnownServer {
        leader: record.process.map(|(pid, _)| pid),
        in_cgroup: record.in_cgroup,
        leaf: leaf.and_then(Result::ok).flatten(),
        ..nobody(contents.cookie(*record), state)
    }
}

fn nobody(cookie: Cookie, state: HostState) -> KnownServer {
    KnownServer {
        id: format!("{:016x}", cookie.serial()),
        host: KnownHost {
            pid: cookie.host().pid(),
            name: None,
            parent: None,
            is_wrapper: false,
            state,
        },
        leader: None,
        guardian: None,
        in_cgroup: false,
        processes: Vec::new(),
        cookie,
        leaf: None,
    }
}

/// The process that launched it, if that is still there.
fn living_host(server: &KnownServer) -> Option<sys::Seen> {
    let host = sys::see(server.host.pid)?;
    (host.start_time == server.cookie.host().start_time()).then_some(host)
}

/// The numbers of those in its cgroup that are visible here, as far as it can be looked into.
fn inside(server: &KnownServer) -> Vec<u32> {
    let Some(Ok(leaf)) = server.leaf.clone().map(Leaf::adopt) else {
        return Vec::new();
    };
    let mut members = leaf.members().unwrap_or_default();
    leaf.abandon();
    members.retain(|pid| *pid > 0);
    members
}

/// Everybody who is the server's now: who carries its identity, and who is in its cgroup.
pub(super) fn members(server: &KnownServer) -> io::Result<Vec<KnownProcess>> {
    let is_theirs = |mark: &Mark| matches!(mark, Mark::Cookie(cookie) if *cookie == server.cookie);
    let scene = processes::look(&[])?;
    let marked = scene
        .processes
        .into_values()
        .filter(|it| is_theirs(&it.mark));
    let mut pids: Vec<u32> = marked
        .filter(|it| !it.is_guardian)
        .map(|it| it.pid)
        .collect();
    let inside = inside(server).into_iter();
    pids.extend(inside.filter(|pid| !processes::is_guardian(*pid)));
    pids.sort_unstable();
    pids.dedup();
    Ok(pids.into_iter().filter_map(see).collect())
}

/// Returns whether a process is still the server's, by what it says or where it is.
pub(super) fn is_of(server: &KnownServer, pid: u32) -> bool {
    let says_so = matches!(processes::mark_of(pid), Ok(Some(Mark::Cookie(cookie))) if cookie == server.cookie);
    says_so || inside(server).contains(&pid)
}

/// What is known of a process; `None` if it has ended.
pub(super) fn see(pid: u32) -> Option<KnownProcess> {
    let seen = sys::see(pid).filter(|seen| seen.state != sys::ProcessState::Dead)?;
    let ticks = sys::ticks_since_boot().saturating_sub(seen.start_time);
    Some(KnownProcess {
        pid,
        parent: seen.parent,
        name: seen.name,
        age: sys::of_ticks(ticks),
        memory: sys::memory_of(pid),
        cpu: sys::cpu_of(pid).unwrap_or(Duration::ZERO),
        start_time: seen.start_time,
    })
}

/// The words that a process was started with.
pub(crate) fn command_line(pid: u32, start_time: u64) -> Vec<String> {
    let text = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let is_it = sys::see(pid).is_some_and(|seen| seen.start_time == start_time);
    let text = text.strip_suffix(b"\0").unwrap_or(&text);
    let words = text.split(|&byte| byte == 0);
    let words = words.map(|word| String::from_utf8_lossy(word).into_owned());
    match is_it && !text.is_empty() {
        true => words.collect(),
        false => Vec::new(),
    }
}
