//! The processes of this machine that carry an identity.

use std::io;

use super::processes::mark_now;
use super::residents::Residents;
use super::verdict::Mark;
use crate::answers;
use crate::identity::Cookie;
use crate::patience::Patience;
use crate::sys::{self, ProcEntry, ProcessState, Seen, is_gone};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Where {
    /// In other PID namespaces than this host's, out of reach of a guardian that has reaped all
    /// descendants.
    Foreign,
    Everywhere,
}

/// Returns whether a guardian that has reaped all descendants may have missed a process in another
/// PID namespace. The kernel reparents an orphan within the namespace of its *parent*: so one with a
/// parent in the guardian's namespace has always been a descendant of the guardian.
pub(super) fn is_out_of_reach(parent_is_here: bool) -> bool {
    !parent_is_here
}

#[derive(Debug)]
pub struct Carrier {
    pub seen: Seen,
    /// `None` while it is in `execve` or exits.
    pub identity: Option<Cookie>,
}

/// The maximum numbers of processes, and of unknown ones, for the watcher's thread.
const MANY: usize = 2000;
const UNKNOWN_MAX: usize = 64;

/// Returns whether [`take`] would find no process in other PID namespaces, if that can be found out
/// quickly and without reading a mark: then all but a few processes of the machine are known from the
/// last search. `false` proves nothing.
pub fn foreign_namespaces_are_clear(since: u64, childless: &[u32]) -> io::Result<bool> {
    let mut census = Census::begin(Where::Foreign, since, childless)?;
    if census.residents.as_ref().is_some_and(|it| it.len() > MANY) {
        return Ok(false);
    }
    let unknown = census.list()?;
    Ok(unknown.len() <= UNKNOWN_MAX && census.candidates(unknown)?.is_empty() && census.is_whole)
}

/// Finds the processes that carry an identity, or may soon, and are not older than `since`, in clock
/// ticks since boot. Older ones are not examined: reading an environment may block.
///
/// A process that starts after the first whole listing inherits its environment from a listed one, so
/// only those in `execve` are examined again. The list is not made again for one of the `childless`
/// that has gone meanwhile. Fails if a process of this user could not be examined.
pub fn take(place: Where, since: u64, childless: &[u32]) -> io::Result<Vec<Carrier>> {
    let mut census = Census::begin(place, since, childless)?;
    let mut found = Vec::new();
    let mut passing = Vec::<(ProcEntry, Carrier)>::new();
    let mut patience = Patience::new();
    loop {
        let mut entries: Vec<_> = passing.drain(..).map(|(entry, _)| entry).collect();
        if !census.is_whole {
            entries.append(&mut census.list()?);
        }
        let candidates = census.candidates(entries)?;
        for (entry, carrier) in census.carriers(candidates)? {
            match (&carrier.identity, carrier.seen.state) {
                (Some(_), _) => found.push(carrier),
                // It may have left a child that was not listed.
                (None, ProcessState::Exiting) => {
                    census.is_whole = false;
                    found.push(carrier);
                }
                (None, _) => passing.push((entry, carrier)),
            }
        }
        if census.is_whole && passing.is_empty() {
            return Ok(found);
        }
        let lasts = match passing.is_empty() {
            true => patience.lasts(),
            false => patience.lasts_beside(passing.iter().map(|(entry, _)| entry.pid)),
        };
        if !lasts {
            break;
        }
    }
    if !census.is_whole {
        return Err(io::Error::other(
            "processes come and go faster than they can be looked at",
        ));
    }
    found.extend(passing.into_iter().map(|(_, carrier)| carrier));
    Ok(found)
}

struct Census<'a> {
    place: Where,
    home: u64,
    since: u64,
    childless: &'a [u32],
    /// Only for a search of other namespaces.
    residents: Option<Residents>,
    /// The listed pids, sorted. Not a set, which would allocate for each process of the machine.
    listed: Vec<u32>,
    /// Every process is listed, or inherits its environment from a listed one.
    is_whole: bool,
}

enum Look {
    /// In this PID namespace, for life. Only where other namespaces are searched.
    Resident,
    /// Started at this time, before the searched server.
    Older(u64),
    /// Not searched for, or not readable for this user.
    Other,
    Vanished,
    /// Its mark decides.
    Candidate(Seen),
}

impl<'a> Census<'a> {
    fn begin(place: Where, since: u64, childless: &'a [u32]) -> io::Result<Self> {
        Ok(Self {
            place,
            home: sys::home()?,
            since,
            childless,
            residents: (place == Where::Foreign).then(Residents::of_last_search),
            listed: Vec::new(),
            is_whole: false,
        })
    }

    /// Lists the processes that are not known yet.
    fn list(&mut self) -> io::Result<Vec<ProcEntry>> {
        self.is_whole = true;
        let mut entries = sys::entries_of_proc()?;
        entries.retain(|entry| self.listed.binary_search(&entry.pid).is_err());
        self.listed.extend(entries.iter().map(|entry| entry.pid));
        self.listed.sort_unstable();
        if let Some(residents) = &mut self.residents {
            entries.retain(|entry| !residents.still_has(entry, self.since));
        }
        Ok(entries)
    }

    /// Notes that a process has gone: it may have left a child that was not listed, and its pid may
    /// have been reused by one.
    fn vanished(&mut self, pid: u32) {
        self.is_whole &= self.childless.contains(&pid);
        self.listed.retain(|listed| *listed != pid);
    }

    /// Returns those of which the marks have to be read.
    fn candidates(&mut self, entries: Vec<ProcEntry>) -> io::Result<Vec<(ProcEntry, Seen)>> {
        let mut candidates = Vec::new();
        for entry in entries {
            let residents = self.residents.iter_mut();
            match look_at(entry.pid, self.place, self.home, self.since)? {
                Look::Resident => residents.for_each(|them| them.note(entry, None)),
                Look::Older(start) => residents.for_each(|them| them.note(entry, Some(start))),
                Look::Other => {}
                Look::Vanished => self.vanished(entry.pid),
                Look::Candidate(seen) => candidates.push((entry, seen)),
            }
        }
        Ok(candidates)
    }

    /// Reads the marks. A process that blocks its reader is left out in a search everywhere: if it
    /// belongs to a server without a guardian it was reparented, which prevents the proof.
    fn carriers(
        &mut self,
        candidates: Vec<(ProcEntry, Seen)>,
    ) -> io::Result<Vec<(ProcEntry, Carrier)>> {
        let pids: Vec<u32> = candidates.iter().map(|(entry, _)| entry.pid).collect();
        let marks = answers::each(&pids, mark_now).into_iter();
        let mut carriers = Vec::new();
        for ((entry, seen), mark) in candidates.into_iter().zip(marks) {
            let identity = match mark {
                None if self.place == Where::Foreign => None,
                Some(Ok(Some(Mark::Cookie(identity)))) => Some(identity),
                Some(Ok(Some(Mark::Passing))) => None,
                Some(Ok(None)) => {
                    // Otherwise it is a kernel thread.
                    if sys::look_at(entry.pid)?.is_none() {
                        self.vanished(entry.pid);
                    }
                    continue;
                }
                Some(Err(error)) if error.kind() != io::ErrorKind::PermissionDenied => {
                    return Err(error);
                }
                _ => continue,
            };
            carriers.push((entry, Carrier { seen, identity }));
        }
        Ok(carriers)
    }
}

fn look_at(pid: u32, place: Where, home: u64, since: u64) -> io::Result<Look> {
    match sys::namespace_of(pid) {
        Ok(namespace) if namespace == home && place == Where::Foreign => {
            return Ok(Look::Resident);
        }
        Ok(_) => {}
        Err(error) if is_gone(&error) => return Ok(Look::Vanished),
        // Also the error for a process that ends at this moment.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Ok(match sys::look_at(pid) {
                Ok(Some(seen)) if seen.start_time < since => Look::Older(seen.start_time),
                Ok(Some(_)) => Look::Other,
                Ok(None) => Look::Vanished,
                Err(_) if std::fs::exists(format!("/proc/{pid}"))? => Look::Other,
                Err(_) => Look::Vanished,
            });
        }
        Err(error) => return Err(error),
    }
    Ok(match sys::look_at(pid)? {
        None => Look::Vanished,
        Some(seen) if seen.start_time < since => Look::Older(seen.start_time),
        Some(seen) if seen.is_dead() => Look::Other,
        Some(seen) if place == Where::Foreign && !is_out_of_reach(has_parent_in(home, &seen)) => {
            Look::Other
        }
        Some(seen) => Look::Candidate(seen),
    })
}

/// Returns whether the parent of a process is known to be in this PID namespace.
fn has_parent_in(home: u64, child: &Seen) -> bool {
    let is_here = sys::namespace_of(child.parent).is_ok_and(|namespace| namespace == home);
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
        let look = |pid, home| look_at(pid, Where::Foreign, home, 0);
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
        let server = identity::new_server().unwrap();
        let since = sys::see(std::process::id()).unwrap().start_time;
        let refused = std::thread::scope(|scope| {
            let storms = [(); 4].map(|()| scope.spawn(storm));
            let looks = (0..12).map(|_| {
                take(Where::Everywhere, 0, &[])?;
                crate::adoptions::look(&[(&server, since)])
            });
            let refused: Vec<_> = looks.filter_map(Result::err).collect();
            over.store(true, Ordering::Relaxed);
            drop(storms);
            refused
        });
        assert!(refused.is_empty(), "{refused:?}");
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
        // Where it may, in a PID namespace of its own: the machine's other ones come and go.
        const ALONE: &str = "MCP_TREE_TEST_ALONE";
        let alone = |program: &std::path::Path| {
            let mut unshare = std::process::Command::new("unshare");
            unshare.args([
                "--user",
                "--map-root-user",
                "--pid",
                "--fork",
                "--kill-child",
            ]);
            unshare.arg("--mount-proc").arg(program).env(ALONE, "1");
            unshare
        };
        let can = alone("true".as_ref()).status().is_ok_and(|it| it.success());
        if can && std::env::var_os(ALONE).is_none() {
            let name =
                "orphans::census::tests::foreign_namespaces_are_clear_only_without_processes";
            let mut again = alone(&std::env::current_exe().unwrap());
            assert!(again.args(["--exact", name]).status().unwrap().success());
            return;
        }
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
