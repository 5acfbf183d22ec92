//! Everything that runs, for people to look at.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::time::Duration;

use mcp_lifecycle_core::launch::{Remnant, UnknownRemnant};

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

const HIDDEN: &str = "somebody in its cgroup is in a PID namespace that is not visible here";

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
    let (leaf, unfound) = match leaf {
        Some(Err(why)) => (None, Some(why)),
        Some(Ok(leaf)) => (leaf, None),
        None => (None, None),
    };
    KnownServer {
        leader: record.process.map(|(pid, _)| pid),
        in_cgroup: record.in_cgroup,
        leaf,
        unfound,
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
        unfound: None,
    }
}

/// The process that launched it, if that is still there.
fn living_host(server: &KnownServer) -> Option<sys::Seen> {
    let host = sys::see(server.host.pid)?;
    (host.start_time == server.cookie.host().start_time()).then_some(host)
}

/// Who is in a server's cgroup.
#[derive(Default)]
pub(super) struct Inside {
    /// By number.
    pub(super) pids: Vec<u32>,
    /// `true` if there are some whose number is not visible here.
    pub(super) has_hidden: bool,
}

/// Looks into its cgroup. One that is gone has nobody inside.
///
/// # Errors
///
/// It cannot be looked into, which says nothing.
pub(super) fn inside(server: &KnownServer) -> io::Result<Inside> {
    let leaf = match server.leaf.clone().map(Leaf::adopt) {
        None => return Ok(Inside::default()),
        Some(Err(error)) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Inside::default());
        }
        Some(leaf) => leaf?,
    };
    let members = leaf.members();
    leaf.abandon();
    let (hidden, pids): (Vec<u32>, _) = members?.into_iter().partition(|pid| *pid == 0);
    Ok(Inside {
        pids,
        has_hidden: !hidden.is_empty(),
    })
}

/// Who is a server's.
pub(super) struct Members {
    pub(super) known: Vec<KnownProcess>,
    /// Why there may be more.
    pub(super) unseen: Option<String>,
}

impl Members {
    /// Returns whether it is certain that there are none.
    pub(super) fn are_none(&self) -> bool {
        self.known.is_empty() && self.unseen.is_none()
    }
}

/// Everybody who is the server's now: who carries its identity, and who is in its cgroup.
pub(super) fn members(server: &KnownServer) -> Members {
    let is_theirs = |mark: &Mark| matches!(mark, Mark::Cookie(cookie) if *cookie == server.cookie);
    let mut unseen = None;
    let mut note = |error: io::Error| {
        unseen.get_or_insert_with(|| error.to_string());
    };
    let mut pids = Vec::new();
    match processes::look(&[]) {
        Ok(scene) => {
            let marked = scene.processes.into_values();
            let marked = marked.filter(|it| is_theirs(&it.mark) && !it.is_guardian);
            pids.extend(marked.map(|it| it.pid));
        }
        Err(error) => note(error),
    }
    match inside(server) {
        Ok(inside) => {
            if inside.has_hidden {
                note(io::Error::other(HIDDEN));
            }
            let inside = inside.pids.into_iter();
            pids.extend(inside.filter(|pid| !processes::is_guardian(*pid)));
        }
        Err(error) => note(error),
    }
    pids.sort_unstable();
    pids.dedup();
    let mut known = Vec::new();
    for pid in pids {
        match try_see(pid) {
            Ok(process) => known.extend(process),
            Err(error) => note(error),
        }
    }
    Members { known, unseen }
}

/// Returns whether a process is still the server's, by what it says or where it is.
pub(super) fn is_of(server: &KnownServer, pid: u32) -> bool {
    let says_so = matches!(processes::mark_of(pid), Ok(Some(Mark::Cookie(cookie))) if cookie == server.cookie);
    says_so || inside(server).is_ok_and(|inside| inside.pids.contains(&pid))
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
            memory: sys::memory_of(pid),
            cpu: sys::cpu_of(pid).unwrap_or(Duration::ZERO),
            start_time: seen.start_time,
        }
    }))
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
