//! Searches for a server's processes outside its tree and cgroup, by their mark, and ends them.
//!
//! The orphan of a process that has entered another PID namespace (`nsenter`, `podman exec`) is
//! reparented to the first process there, not to the guardian; it may also have left the cgroup. So
//! a guardian's report counts after a look into the other namespaces; most machines have none.
//! Where the guardian was killed, all processes are searched. One search serves all servers that
//! end at the time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::{io, mem};

use mcp_lifecycle_core::launch::Remnant;
use mcp_lifecycle_core::lock::Lock;

use super::guarded::Guarded;
use super::look;
use crate::adoptions;
use crate::conclusion::{Event, Found, Inside};
use crate::identity::Cookie;
use crate::orphans::{self, Carrier, Where};
use crate::sys::{self, Pid, ProcessState, Seen, watch};
use crate::worker::Worker;

type Ended = BTreeMap<u32, String>;

/// The thread that searches, one search at a time: there may be thousands of processes.
static SEARCHES: Worker<Search> = Worker::new("mcp-lifecycle-search", serve);

const UNREADABLE: &str = "is exiting; its environment is no longer readable";

/// The searches that start once the watcher has run its callbacks.
static ENDS: Lock<Vec<Search>> = Lock::new(Vec::new());

pub(super) fn start() -> io::Result<()> {
    SEARCHES.start()
}

/// Ends the processes that carry the server's identity, and reports to its conclusion when none is
/// left or the search has failed.
pub(super) fn end(server: &Arc<Guarded>, everywhere: bool) {
    let Some(identity) = server.identity.clone() else {
        let unmarked = "it has no mark".to_owned();
        return server.advance(Event::Searched(Err(unmarked)));
    };
    let place = match everywhere {
        true => Where::Everywhere,
        false => Where::Foreign,
    };
    let told = Arc::clone(server);
    let search = Search {
        place,
        identity,
        since: server.since,
        guardian: Some(server.guardian.pid()),
        ended: Ended::new(),
        suspects: None,
        tell: Some(Box::new(move |event| told.advance(event))),
    };
    match place == Where::Foreign && watch::after_callbacks(serve_at_once) {
        true => ENDS.lock().push(search),
        false => SEARCHES.add(search),
    }
}

/// Searches on the watcher's thread: one listing nearly always shows that there is no other PID
/// namespace.
fn serve_at_once() {
    let searches = mem::take(&mut *ENDS.lock());
    let (since, childless) = first_and_childless(&searches);
    let are_clear = sys::reserve::with(|| orphans::foreign_namespaces_are_clear(since, &childless));
    for mut search in searches {
        match are_clear {
            Ok(true) => sys::shielded(|| search.answer(Ok(None))),
            Ok(false) | Err(_) => {
                sys::shielded(|| search.awaits(None));
                SEARCHES.add(search);
            }
        }
    }
}

/// Returns the start of the first of these servers, and their guardians, which have no children.
fn first_and_childless(searches: &[Search]) -> (u64, Vec<u32>) {
    let since = searches.iter().map(|search| search.since).min();
    let guardians = searches.iter().filter_map(|search| search.guardian);
    (since.unwrap_or_default(), guardians.collect())
}

struct Search {
    place: Where,
    identity: Cookie,
    since: u64,
    /// The guardian's pid, until the first look is over.
    guardian: Option<u32>,
    ended: Ended,
    /// The exiting processes that may be the server's, by pid and start time, since the first look
    /// that found no living one. A later one is another server's, and must not delay this proof.
    suspects: Option<BTreeSet<(u32, u64)>>,
    /// Carries its events to the server's conclusion; `None` after the last one.
    tell: Option<Box<dyn Fn(Event) + Send>>,
}

#[derive(Debug, PartialEq, Eq)]
enum Left<'a> {
    Nothing,
    Marked(&'a Seen),
    Exiting(&'a Seen),
    /// Its mark is not readable yet.
    Unknown(u32),
}

fn serve(searches: Vec<Search>) {
    let is_foreign = |search: &Search| search.place == Where::Foreign;
    let (foreign, everywhere): (Vec<_>, Vec<_>) = searches.into_iter().partition(is_foreign);
    for (place, searches) in [(Where::Foreign, foreign), (Where::Everywhere, everywhere)] {
        if searches.is_empty() {
            continue;
        }
        let (since, mut childless) = first_and_childless(&searches);
        // Elsewhere a guardian may have been killed and have left its children.
        if place == Where::Everywhere {
            childless.clear();
        }
        let found = sys::reserve::with(|| orphans::census(place, since, &childless));
        let mut over = Vec::new();
        for search in searches {
            // Wakers are foreign code: a panic in one must not affect the next search.
            sys::shielded(|| match &found {
                Ok(found) => over.extend(search.conclude(found)),
                Err(error) => search.fail(error.to_string()),
            });
        }
        let wanted: Vec<_> = over.iter().map(|it| (&it.identity, it.since)).collect();
        let adopted = match place {
            Where::Foreign => Ok(vec![None; over.len()]),
            Where::Everywhere => adoptions::look(&wanted).map_err(|error| error.to_string()),
        };
        for (at, mut search) in over.into_iter().enumerate() {
            let adopted = adopted.as_ref().map(|all| all[at].clone());
            sys::shielded(|| search.answer(adopted.map_err(String::clone)));
        }
    }
}

impl Search {
    /// Kills the processes found. Returns the search when none is left.
    fn conclude(mut self, found: &[Carrier]) -> Option<Self> {
        let mut spared = None;
        for Carrier { seen, identity } in found {
            if identity.as_ref() == Some(&self.identity) {
                // The init of its namespace runs the guardian program, and is not counted.
                if !orphans::is_guardian(seen.pid) {
                    self.ended.insert(seen.pid, seen.name.clone());
                }
                let killed = look::kill(seen.pid, |now| now.start_time == seen.start_time);
                if let Err(error) = killed {
                    spared = Some(format!("process {} cannot be killed: {error}", seen.pid));
                }
            }
        }
        if let Some(why) = spared {
            self.fail(why);
            return None;
        }
        match self.judge(found) {
            Left::Nothing => return Some(self),
            Left::Marked(seen) => self.again_after(seen),
            Left::Exiting(seen) => {
                let name = format!("{}, {UNREADABLE}", seen.name);
                self.awaits(Some(Remnant::process(seen.pid, name)));
                self.again_after(seen);
            }
            Left::Unknown(pid) => {
                self.fail(format!(
                    "the environment of process {pid} is not readable yet"
                ));
            }
        }
        None
    }

    /// Judges which processes are left, by this look. Pure.
    fn judge<'a>(&mut self, found: &'a [Carrier]) -> Left<'a> {
        let mut left = Left::Nothing;
        let (mut some_live, mut exiting) = (false, BTreeSet::new());
        for Carrier { seen, identity } in found {
            let key = (seen.pid, seen.start_time);
            let is_suspect = seen.start_time >= self.since
                && self
                    .suspects
                    .as_ref()
                    .is_none_or(|suspects| suspects.contains(&key));
            match identity {
                Some(identity) if *identity == self.identity => {
                    some_live = true;
                    left = Left::Marked(seen);
                }
                None if is_suspect && seen.state == ProcessState::Exiting => {
                    exiting.insert(key);
                    if !some_live {
                        left = Left::Exiting(seen);
                    }
                }
                None if is_suspect => return Left::Unknown(seen.pid),
                _ => {}
            }
        }
        self.suspects = (!some_live).then_some(exiting);
        left
    }

    fn again_after(mut self, seen: &Seen) {
        self.guardian = None;
        let Some(pid) = Pid::new(seen.pid.into()) else {
            return self.fail("a process with an impossible pid".to_owned());
        };
        let search = Arc::new(Lock::new(Some(self)));
        let take = |search: &Lock<Option<Self>>| search.lock().take();
        let again = Arc::clone(&search);
        let look_again = move || {
            if let Some(search) = take(&again) {
                SEARCHES.add(search);
            }
        };
        let is_same = |now: Seen| now.start_time == seen.start_time;
        let still = || Ok(sys::look_at(seen.pid)?.is_some_and(is_same));
        if let Err(error) = sys::watch_process(pid, still, look_again)
            && let Some(search) = take(&search)
        {
            search.fail(format!("process {} cannot be watched: {error}", seen.pid));
        }
    }

    fn fail(mut self, why: String) {
        self.answer(Err(why));
    }

    /// Reports that the proof waits for this process, which may be another server's.
    fn awaits(&self, process: Option<Remnant>) {
        if let Some(tell) = &self.tell {
            tell(Event::Awaits(process));
        }
    }

    fn answer(&mut self, adopted: Result<Option<String>, String>) {
        if let Some(tell) = self.tell.take() {
            let ended = Inside::these(mem::take(&mut self.ended).into_iter());
            tell(Event::Searched(
                adopted.map(|adopted| Found { ended, adopted }),
            ));
        }
    }
}

/// Answers after a panic, so that the server does not wait for ever.
impl Drop for Search {
    fn drop(&mut self) {
        sys::shielded(|| self.answer(Err("the search was broken off".to_owned())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::HostId;

    fn server(serial: u64) -> Cookie {
        let host = HostId::new(4242, 1, "2b9a0c1e-0000-4000-8000-000000000000", 7);
        Cookie::new(host.unwrap(), serial)
    }

    fn carrier(pid: u32, identity: Option<Cookie>, state: ProcessState) -> Carrier {
        let seen = Seen {
            pid,
            parent: 1,
            session: 1,
            group: 1,
            start_time: 100,
            state,
            ..Seen::default()
        };
        Carrier { seen, identity }
    }

    fn ending(pid: u32) -> Carrier {
        carrier(pid, None, ProcessState::Exiting)
    }

    fn search() -> Search {
        Search {
            place: Where::Foreign,
            identity: server(1),
            since: 100,
            guardian: Some(2),
            ended: Ended::new(),
            suspects: None,
            tell: None,
        }
    }

    fn waits_for(search: &mut Search, found: &[Carrier]) -> Option<u32> {
        match search.judge(found) {
            Left::Marked(seen) | Left::Exiting(seen) => Some(seen.pid),
            Left::Nothing => None,
            Left::Unknown(pid) => panic!("unknown: {pid}"),
        }
    }

    #[test]
    fn later_processes_do_not_delay_a_proof() {
        let mut search = self::search();
        let other = carrier(5, Some(server(2)), ProcessState::Live);
        assert_eq!(waits_for(&mut search, &[other, ending(10)]), Some(10));
        assert_eq!(waits_for(&mut search, &[ending(10), ending(11)]), Some(10));
        // Exiting processes of other servers may keep appearing.
        assert_eq!(waits_for(&mut search, &[ending(11), ending(12)]), None);
        let executing = carrier(13, None, ProcessState::Live);
        assert_eq!(waits_for(&mut search, &[executing]), None);
    }

    #[test]
    fn exiting_descendants_are_waited_for() {
        let own = || carrier(10, Some(server(1)), ProcessState::Live);
        let mut search = self::search();
        assert_eq!(waits_for(&mut search, &[own()]), Some(10));
        assert_eq!(waits_for(&mut search, &[ending(11)]), Some(11));
        assert_eq!(waits_for(&mut search, &[ending(11), ending(12)]), Some(11));
        assert_eq!(waits_for(&mut search, &[ending(12)]), None);
        // A process that carries the identity always counts, also a later one.
        assert_eq!(waits_for(&mut search, &[own()]), Some(10));
        assert!(matches!(
            search.judge(&[own(), ending(11)]),
            Left::Marked(_)
        ));
        assert!(matches!(search.judge(&[ending(11)]), Left::Exiting(_)));
        let executing = [carrier(13, None, ProcessState::Live)];
        assert_eq!(self::search().judge(&executing), Left::Unknown(13));
    }
}
