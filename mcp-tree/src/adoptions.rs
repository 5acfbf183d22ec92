//! Looks at adopted processes: the edge of [`adopted`](crate::adopted).

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use crate::adopted::{Scene, Whose};
use crate::identity::{self, Cookie, HostId};
use crate::orphans::{self, Mark};
use crate::patience::Patience;
use crate::sys::{self, ProcessState, Seen};
use crate::{cgroup, program};

/// A server to look for, and the time before its start.
type Wanted<'a> = (&'a Cookie, u64);

/// The number of equal looks in a row: where a pid is reused, one look can miss a process.
const EQUAL_LOOKS: u32 = 2;

const RESTLESS: &str = "processes come and go faster than they can be looked at";

const NAMES_MAX: usize = 16;

/// Returns for each server the processes that may be left of it. Blocks for milliseconds; at most
/// for 1.5 s, and eleven times as long without CPU time.
pub fn look(wanted: &[Wanted<'_>]) -> io::Result<Vec<Option<String>>> {
    match wanted {
        [] => Ok(Vec::new()),
        _ => sys::reserve::with(|| look_until_it_rests(wanted)),
    }
}

fn look_until_it_rests(wanted: &[Wanted<'_>]) -> io::Result<Vec<Option<String>>> {
    orphans::shows_all()?;
    let adopters = adopters()?;
    let (mut last, mut equal) = (None, 0);
    let mut patience = Patience::new();
    loop {
        let scene = see_all(&adopters, wanted, &mut patience)?;
        let mut answers = BTreeMap::new();
        let mut names = Vec::new();
        let mut restless = Vec::new();
        for (server, since) in wanted {
            let mut left = Vec::new();
            for process in scene.adopted_since(*since) {
                let answer = match answers.get(&process.pid) {
                    Some(answer) => answer,
                    None => {
                        let asked = ask(process, server.host(), &adopters)?;
                        answers.entry(process.pid).or_insert(asked)
                    }
                };
                match answer {
                    Answer::Later => restless.push(process.pid),
                    Answer::Whose(whose) if !whose.may_be(server, *since) => {
                        continue;
                    }
                    Answer::Whose(_) => {}
                }
                left.push(process.pid);
            }
            names.push(left);
        }
        equal = match restless.is_empty() {
            true if last.as_ref() == Some(&names) => equal + 1,
            true => 1,
            false => 0,
        };
        let found = names.iter().map(|left| describe(left)).collect();
        last = Some(names);
        if equal == EQUAL_LOOKS {
            return Ok(found);
        }
        if !patience.lasts_beside(restless) {
            return Err(io::Error::other(RESTLESS));
        }
    }
}

fn describe(left: &[u32]) -> Option<String> {
    let name = |pid: &u32| format!("{pid} ({})", sys::name_of(*pid).unwrap_or_default());
    let named: Vec<String> = left.iter().take(NAMES_MAX).map(name).collect();
    let named = named.join(", ");
    let named = match left.len().saturating_sub(NAMES_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    };
    Some(named).filter(|_| !left.is_empty())
}

enum Answer {
    Whose(Whose),
    /// Not yet: it is in `execve`, or exits.
    Later,
}

fn ask(process: &Seen, host: &HostId, adopters: &BTreeSet<u32>) -> io::Result<Answer> {
    let pid = process.pid;
    let is_same = |seen: &Seen| seen.start_time == process.start_time;
    let Some(seen) = sys::look_at(pid)?.filter(is_same) else {
        return Ok(Answer::Later);
    };
    let path = sys::cgroup_of(pid)?.unwrap_or_default();
    if let Some(name) = cgroup::name_in(&path, host) {
        return Ok(Answer::Whose(Whose::InCgroup(name.to_owned())));
    }
    if !adopters.contains(&process.parent) && is_kept_by(process.parent, &path)? {
        return Ok(Answer::Whose(Whose::InContainer));
    }
    if matches!(seen.state, ProcessState::Exiting | ProcessState::Dead) {
        return Ok(Answer::Later);
    }
    Ok(Answer::Whose(match orphans::mark_of(pid) {
        Ok(Some(Mark::Cookie(cookie))) => Whose::Says(cookie),
        Ok(Some(Mark::Passing)) | Ok(None) => return Ok(Answer::Later),
        Ok(Some(Mark::None | Mark::Unreadable | Mark::Unseen(_))) => Whose::Anybody,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Whose::Anybody,
        Err(error) => return Err(error),
    }))
}

/// Returns whether a cgroup is that of the first process of a PID namespace, and neither this
/// host's nor one below it.
fn is_kept_by(first: u32, cgroup: &str) -> io::Result<bool> {
    let Some(own) = sys::cgroup_of(std::process::id())? else {
        return Ok(false);
    };
    let is_own = cgroup == own || (own != "/" && cgroup.starts_with(&format!("{own}/")));
    Ok(!is_own && sys::cgroup_of(first)?.is_some_and(|theirs| theirs == cgroup))
}

/// Finds the processes that adopt the orphans of a killed guardian of this host. Where that cannot
/// be found out, these are all ancestors of the host.
fn adopters() -> io::Result<BTreeSet<u32>> {
    match program::adopter() {
        Ok(adopter) if adopter > 0 => return Ok(BTreeSet::from([adopter])),
        Ok(_) => {}
        Err(error) => {
            sys::shielded(|| tracing::debug!(%error, "who adopts orphans cannot be found out"));
        }
    }
    let mut above = BTreeSet::from([1]);
    let mut next = std::process::id();
    while next > 0 && above.insert(next) {
        next = sys::look_at(next)?.map_or(0, |seen| seen.parent);
    }
    Ok(above)
}

fn see_all(
    adopters: &BTreeSet<u32>,
    wanted: &[Wanted<'_>],
    patience: &mut Patience,
) -> io::Result<Scene> {
    let mut scene = Scene {
        adopters: adopters.clone(),
        own_sessions: identity::sessions()?,
        ..Scene::default()
    };
    let mut is_first = true;
    loop {
        // A process that was just adopted had another parent before, so it is read again.
        let strays: Vec<u32> = scene.strays().collect();
        for pid in strays {
            scene.processes.remove(&pid);
        }
        let mut is_whole = !std::mem::take(&mut is_first);
        for pid in sys::numbers_in_proc()? {
            if scene.processes.contains_key(&pid) {
                continue;
            }
            match sys::look_at(pid)? {
                Some(seen) => drop(scene.processes.insert(pid, seen)),
                // It may have left a child that was not listed.
                None => is_whole = false,
            }
        }
        if is_whole && scene.strays().next().is_none() {
            let since = wanted.iter().map(|(_, since)| *since).min();
            let young = scene.processes.values();
            let young = young.filter(|process| Some(process.start_time) >= since);
            let parents: BTreeSet<u32> = young.map(|process| process.parent).collect();
            let first = |pid: &u32| orphans::is_first_of_another_namespace(*pid);
            scene.adopters.extend(parents.into_iter().filter(first));
            return Ok(scene);
        }
        if !patience.lasts() {
            return Err(io::Error::other(RESTLESS));
        }
    }
}
