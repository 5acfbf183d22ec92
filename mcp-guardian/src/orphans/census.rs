//! The processes of this machine that carry an identity.

use std::io;

use super::processes::mark_now;
use super::residents::Residents;
use super::verdict::Mark;
use super::visibility;
use crate::answers;
use crate::identity::Cookie;
use crate::patience::Patience;
use crate::sys::stat::is_gone;
use crate::sys::{self, ProcEntry, ProcessState, Seen};

/// Where to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Where {
    /// In other PID namespaces than this host's, out of reach of a guardian that has reaped all
    /// descendants.
    Foreign,
    Everywhere,
}

/// Returns whether a guardian that has reaped all descendants may have missed a process in another
/// PID namespace, by the place of that one's parent.
///
/// The kernel reparents an orphan to a subreaper, or to the first process, of the namespace in which
/// its *parent* was. So a process of the server with a parent in the guardian's namespace has always
/// been a descendant of the guardian, and has been reaped.
pub(super) fn is_out_of_reach(parent_is_here: bool) -> bool {
    !parent_is_here
}

/// A process that carries an identity, or may.
#[derive(Debug)]
pub struct Carrier {
    pub seen: Seen,
    /// `None` while it is in `execve` or exits.
    pub identity: Option<Cookie>,
}

impl Carrier {
    /// Returns whether it is in `execve`, after which its mark is readable.
    pub fn is_passing(&self) -> bool {
        self.identity.is_none() && self.seen.state != ProcessState::Exiting
    }
}

enum Look {
    Carrier(Carrier),
    /// In this PID namespace, for life. Only where other namespaces are searched.
    Resident,
    /// Started at this time, before the searched server.
    Older(u64),
    /// Elsewhere, or without an identity, or not readable for this user.
    Other,
    /// It has gone, and may have left a child that was not listed.
    Vanished,
}

/// Finds the processes that carry an identity, or may soon, and are not older than `since`, in clock
/// ticks since boot. Older ones are not examined: reading an environment may block.
///
/// A process that starts after the first whole listing inherits its environment from a listed one, so
/// only those in `execve` are examined again. The list is not made again for one of the `childless`
/// that has gone meanwhile.
///
/// # Errors
///
/// A process of this user could not be examined.
pub fn take(place: Where, since: u64, childless: &[u32]) -> io::Result<Vec<Carrier>> {
    let home = sys::home()?;
    // Sorted. Not a set, which would allocate for each process of the machine.
    let mut known = Vec::<u32>::new();
    let mut found = Vec::new();
    let mut passing = Vec::<(ProcEntry, Carrier)>::new();
    let mut residents = (place == Where::Foreign).then(Residents::of_last_search);
    let mut is_whole = false;
    let mut patience = Patience::new();
    loop {
        let mut entries: Vec<ProcEntry> = passing.drain(..).map(|(entry, _)| entry).collect();
        if !is_whole {
            let mut listed = sys::entries_of_proc()?;
            listed.retain(|entry| known.binary_search(&entry.pid).is_err());
            if let Some(residents) = &mut residents {
                let is_resident = |entry: &mut ProcEntry| residents.still_has(entry, since);
                known.extend(listed.extract_if(.., is_resident).map(|entry| entry.pid));
            }
            entries.append(&mut listed);
        }
        is_whole = true;
        let looks = look_at_each(&entries, place, home, since);
        // Those that are examined again are known already.
        known.retain(|pid| entries.iter().all(|entry| entry.pid != *pid));
        known.reserve(entries.len());
        for (entry, look) in entries.into_iter().zip(looks) {
            let pid = entry.pid;
            match look? {
                Look::Vanished => {
                    // Its pid may have been reused by a process that is not listed yet.
                    is_whole &= childless.contains(&pid);
                    continue;
                }
                Look::Resident => residents.iter_mut().for_each(|them| them.note(entry)),
                Look::Older(start) => residents
                    .iter_mut()
                    .for_each(|them| them.note_start(entry, start)),
                Look::Carrier(carrier) if carrier.is_passing() => passing.push((entry, carrier)),
                Look::Carrier(carrier) => {
                    // An exiting process may have left a child that was not listed.
                    is_whole &= carrier.identity.is_some();
                    found.push(carrier);
                }
                Look::Other => {}
            }
            known.push(pid);
        }
        known.sort_unstable();
        if is_whole && passing.is_empty() {
            return Ok(found);
        }
        if !patience.lasts_beside(passing.iter().map(|(entry, _)| entry.pid)) {
            break;
        }
    }
    if !is_whole {
        return Err(io::Error::other(
            "processes come and go faster than they can be looked at",
        ));
    }
    found.extend(passing.into_iter().map(|(_, carrier)| carrier));
    Ok(found)
}

/// The maximum numbers of processes, and of unknown ones, in a search on the watcher's thread.
const MANY: usize = 2000;
const UNKNOWN_MAX: usize = 64;

/// Returns whether [`take`] would find no process in other PID namespaces, if that can be found out
/// quickly and without reading a mark: then all but a few processes of the machine are known from the
/// last search. `false` proves nothing.
///
/// # Errors
///
/// The same as of [`take`].
pub fn foreign_namespaces_are_clear(since: u64, childless: &[u32]) -> io::Result<bool> {
    let home = sys::home()?;
    let mut residents = Residents::of_last_search();
    if residents.len() > MANY {
        return Ok(false);
    }
    let mut listed = sys::entries_of_proc()?;
    listed.retain(|entry| !residents.still_has(entry, since));
    if listed.len() > UNKNOWN_MAX {
        return Ok(false);
    }
    for entry in listed {
        match begin_look(entry.pid, Where::Foreign, home, since)? {
            Begun::Over(Look::Resident) => residents.note(entry),
            Begun::Over(Look::Older(start)) => residents.note_start(entry, start),
            Begun::Over(Look::Other) => {}
            Begun::Over(Look::Vanished) if childless.contains(&entry.pid) => {}
            Begun::Over(Look::Vanished | Look::Carrier(_)) | Begun::Mark(_) => return Ok(false),
        }
    }
    Ok(true)
}

/// Looks at each. A process that blocks its reader is left out in a search everywhere: if it belongs to a
/// server without a guardian it was reparented, which prevents the proof.
fn look_at_each(
    entries: &[ProcEntry],
    place: Where,
    home: u64,
    since: u64,
) -> Vec<io::Result<Look>> {
    let pids = entries.iter().map(|entry| entry.pid);
    match place {
        // There are few of them.
        Where::Foreign => pids
            .map(|pid| look_at(pid, place, home, since, mark_in_time))
            .collect(),
        Where::Everywhere => {
            let look = move |pid| look_at(pid, place, home, since, mark_now);
            let looks = answers::each(&pids.collect::<Vec<_>>(), look).into_iter();
            looks.map(|look| look.unwrap_or(Ok(Look::Other))).collect()
        }
    }
}

fn mark_in_time(pid: u32) -> io::Result<Option<Mark>> {
    answers::one(pid, mark_now).unwrap_or(Ok(Some(Mark::Passing)))
}

fn look_at(
    pid: u32,
    place: Where,
    home: u64,
    since: u64,
    mark_of: fn(u32) -> io::Result<Option<Mark>>,
) -> io::Result<Look> {
    let seen = match begin_look(pid, place, home, since)? {
        Begun::Over(look) => return Ok(look),
        Begun::Mark(seen) => seen,
    };
    let identity = match mark_of(pid) {
        Ok(Some(Mark::Cookie(identity))) => Some(identity),
        Ok(Some(Mark::Passing)) => None,
        Ok(Some(Mark::None | Mark::Unreadable | Mark::Unseen(_))) => return Ok(Look::Other),
        // It has ended meanwhile, or is a kernel thread.
        Ok(None) => {
            return Ok(match sys::look_at(pid)? {
                Some(_) => Look::Other,
                None => Look::Vanished,
            });
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(Look::Other),
        Err(error) => return Err(error),
    };
    Ok(Look::Carrier(Carrier { seen, identity }))
}

/// The result of a look without reading the mark.
enum Begun {
    Over(Look),
    /// Its mark decides.
    Mark(Seen),
}

fn begin_look(pid: u32, place: Where, home: u64, since: u64) -> io::Result<Begun> {
    let over = |look| Ok(Begun::Over(look));
    match visibility::namespace_of(pid) {
        Ok(namespace) if namespace == home && place == Where::Foreign => {
            return over(Look::Resident);
        }
        Ok(_) => {}
        Err(error) if is_gone(&error) => return over(Look::Vanished),
        // Also the error for a process that ends at this moment.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return over(match sys::look_at(pid) {
                Ok(Some(seen)) if seen.start_time < since => Look::Older(seen.start_time),
                Ok(Some(_)) => Look::Other,
                Ok(None) => Look::Vanished,
                Err(_) if std::fs::exists(format!("/proc/{pid}"))? => Look::Other,
                Err(_) => Look::Vanished,
            });
        }
        Err(error) => return Err(error),
    }
    let Some(seen) = sys::look_at(pid)? else {
        return over(Look::Vanished);
    };
    if seen.start_time < since {
        return over(Look::Older(seen.start_time));
    }
    if seen.state == ProcessState::Dead {
        return over(Look::Other);
    }
    if place == Where::Foreign && !is_out_of_reach(has_parent_in(home, &seen)) {
        return over(Look::Other);
    }
    Ok(Begun::Mark(seen))
}

/// Returns whether the parent of a process is known to be in this PID namespace.
fn has_parent_in(home: u64, child: &Seen) -> bool {
    let is_here = visibility::namespace_of(child.parent).is_ok_and(|namespace| namespace == home);
    // The parent's pid can have been reused before the look; but no younger process becomes a parent
    // of this one.
    let now = sys::see(child.pid).filter(|now| now.start_time == child.start_time);
    is_here && now.is_some_and(|now| now.parent == child.parent)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::identity::{self, VARIABLE};

    #[test]
    fn this_machine_can_be_looked_at() {
        let own = sys::home().unwrap();
        let all = sys::numbers_in_proc().unwrap().len();
        for place in [Where::Foreign, Where::Everywhere] {
            let begun = std::time::Instant::now();
            let found = take(place, 0, &[]).unwrap();
            eprintln!(
                "{place:?}: {} of {all} in {:?}",
                found.len(),
                begun.elapsed()
            );
        }
        let look = |pid, home| look_at(pid, Where::Foreign, home, 0, mark_in_time);
        assert!(matches!(look(std::process::id(), own), Ok(Look::Resident)));
        assert!(matches!(look(u32::MAX, own), Ok(Look::Vanished)));
        // Seen from anywhere else, this process is one that can be looked at, and so is
        // its parent.
        let elsewhere = look(std::process::id(), own ^ 1).unwrap();
        assert!(!matches!(elsewhere, Look::Vanished));
        let seen = sys::see(std::process::id()).unwrap();
        assert!(has_parent_in(own, &seen) && !has_parent_in(own ^ 1, &seen));
        let adopted = Seen {
            parent: seen.parent + 1,
            ..seen
        };
        assert!(
            !has_parent_in(own, &adopted),
            "it has another parent by now"
        );
    }

    /// Simulates a build on the same machine.
    #[test]
    fn short_lived_strangers_do_not_fail_a_look() {
        let over = AtomicBool::new(false);
        let storm = || {
            while !over.load(Ordering::Relaxed) {
                let ended = std::process::Command::new("true").status();
                assert!(ended.unwrap().success());
            }
        };
        let refused = std::thread::scope(|scope| {
            let storms = [(); 4].map(|()| scope.spawn(storm));
            let looks = (0..12).map(|_| take(Where::Everywhere, 0, &[]));
            let refused = looks.filter_map(Result::err).count();
            over.store(true, Ordering::Relaxed);
            drop(storms);
            refused
        });
        assert_eq!(refused, 0, "of 12");
    }

    #[test]
    fn older_processes_are_not_examined() {
        let server = identity::new_server().unwrap();
        let mut child = std::process::Command::new("sleep");
        let child = child.arg("1000").env(VARIABLE, server.to_string());
        let mut child = child.spawn().unwrap();
        let started = sys::see(child.id()).unwrap().start_time;
        let found = [started, started + 1].map(|since| {
            let all = take(Where::Everywhere, since, &[]).unwrap();
            all.iter().any(|it| it.identity.as_ref() == Some(&server))
        });
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found, [true, false]);
    }

    /// Starts a shell, with a parent in this namespace, in a PID namespace of its own, and a child of it.
    #[test]
    fn foreign_namespaces_are_clear_only_without_processes() {
        let soon = |expected: bool| {
            // Short-lived processes of others make the answer `false`.
            (0..1000).any(|_| {
                take(Where::Foreign, 0, &[]).is_ok()
                    && foreign_namespaces_are_clear(0, &[]).unwrap() == expected
            })
        };
        let before = soon(true);
        let mut shell = std::process::Command::new("unshare");
        shell.args([
            "--user",
            "--map-root-user",
            "--pid",
            "--fork",
            "--kill-child",
        ]);
        shell.args(["sh", "-c", "sleep 1000 & echo there; wait"]);
        let mut shell = shell.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut word = [0; 6];
        std::io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut word).unwrap();
        let told = (0..100).any(|_| foreign_namespaces_are_clear(0, &[]).unwrap());
        shell.kill().unwrap();
        shell.wait().unwrap();
        // At the end of file none of them lives.
        std::io::Read::read_to_end(shell.stdout.as_mut().unwrap(), &mut Vec::new()).unwrap();
        assert!(!told, "a process was in the other namespace");
        assert_eq!(before, soon(true), "as before");
    }
}
