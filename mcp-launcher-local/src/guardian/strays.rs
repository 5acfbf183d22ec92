//! The search for whoever carries the identity of a server and is not where it
//! was put.
//!
//! A process that enters another PID namespace (`nsenter`, `podman exec`) and
//! forks twice is given to *that* namespace's first process, and not to the
//! guardian: the kernel stays within the namespace when it looks for a new
//! parent. The cgroup still holds it, unless it has left that as well, which
//! nobody is told. So this looks for it before the guardian's word is believed:
//! at the identities of those that are in another PID namespace than this host,
//! which are none on most machines. Where the guardian was killed, everybody is
//! looked at.
//!
//! One search serves all servers that end at the time.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use mcp_lifecycle_core::launch::Remnant;

use super::adoptions::{self, Wanted};
use super::decide::Adopted;
use super::look;
use super::server::Server;
use crate::ending::Proof;
use crate::identity::Cookie;
use crate::orphans::{self, Carrier, Where};
use crate::sys::{self, Pid, ProcessState, Seen, watch};
use crate::worker::Worker;

/// Those who were found and sent SIGKILL: their names, by pid.
pub(super) type Ended = BTreeMap<u32, String>;

/// One search at a time, on a thread of its own: there may be thousands of processes.
static SEARCHES: Worker<Search> = Worker::new("mcp-lifecycle-search", serve);

const NAMELESS: &str = "is on its way out and does not say any more whose it is";

/// Those of whom the guardian has reaped everybody, until the watcher has called everybody back.
static ENDS: Mutex<Vec<Search>> = Mutex::new(Vec::new());

/// What a search has found.
pub(super) struct Found {
    pub(super) ended: Ended,
    /// Looked for everywhere only.
    pub(super) adopted: Adopted,
}

impl Found {
    fn nobody() -> Self {
        Self {
            ended: Ended::new(),
            adopted: Adopted::Nobody,
        }
    }
}

/// Starts the thread that searches, if it does not run yet.
pub(super) fn start() -> io::Result<()> {
    SEARCHES.start()
}

/// Looks for those of `server`, which carry `identity`, ends them, and calls `done` with
/// their names when none is left, and with those who may be theirs all the same. With an
/// error if nobody could look.
///
/// `done` is called on the search's thread. Until then, the server knows whom that
/// waits for who is on its way out and may be one of them.
pub(super) fn end(
    server: &Arc<Server>,
    place: Where,
    identity: Cookie,
    done: impl FnOnce(io::Result<Found>) + Send + 'static,
) {
    let waiting = Arc::clone(server);
    let search = Search {
        place,
        identity,
        since: server.since,
        guardian: Some(server.guardian.pid()),
        ended: Ended::new(),
        suspects: None,
        awaits: Box::new(move |process| {
            let exit = waiting.word.get().and_then(|word| word.exit);
            waiting.ending.update(|known| {
                known.exit = known.exit.or(exit);
                if let Some(process) = process {
                    known.proof = Some(Proof::Awaits(process));
                }
            });
        }),
        done: Some(Box::new(done)),
    };
    match place == Where::Abroad && watch::after_callbacks(serve_at_once) {
        true => ENDS
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(search),
        false => SEARCHES.add(search),
    }
}

/// On the watcher's thread: nearly always one listing tells that nobody is abroad. Otherwise it is looked
/// for on the search's thread.
fn serve_at_once() {
    let searches = mem::take(&mut *ENDS.lock().unwrap_or_else(PoisonError::into_inner));
    let (since, childless) = first_and_childless(&searches);
    let nobody = sys::reserve::with(|| orphans::is_nobody_abroad(since, &childless));
    for mut search in searches {
        match nobody {
            Ok(true) => sys::shielded(|| search.answer(Ok(Found::nobody()))),
            // It finds the error again, and says it.
            Ok(false) | Err(_) => {
                sys::shielded(|| (search.awaits)(None));
                SEARCHES.add(search);
            }
        }
    }
}

/// When the first of these servers began, and their guardians, which have reaped everybody.
fn first_and_childless(searches: &[Search]) -> (u64, Vec<u32>) {
    let since = searches.iter().map(|search| search.since).min();
    let guardians = searches.iter().filter_map(|search| search.guardian);
    (since.unwrap_or_default(), guardians.collect())
}

struct Search {
    place: Where,
    identity: Cookie,
    since: u64,
    /// Until the first look is over: later, another process may have its number.
    guardian: Option<u32>,
    ended: Ended,
    /// The processes that may be one of them without saying so, by pid and start time, from the
    /// first look on that found none of them alive. Those who end start nobody any
    /// more: whoever shows up later is another server's, and is not waited for,
    /// or one server would keep back the proofs of all others.
    suspects: Option<BTreeSet<(u32, u64)>>,
    /// Says that the proof takes longer, and who is waited for: it may be a stranger, whom nothing ends.
    awaits: Box<dyn Fn(Option<Remnant>) + Send>,
    done: Option<Box<dyn FnOnce(io::Result<Found>) + Send>>,
}

/// Who is left of a server.
#[derive(Debug, PartialEq, Eq)]
enum Left<'a> {
    Nobody,
    /// This one, and maybe others.
    Somebody(&'a Seen),
    /// Nobody but those who are on their way out, such as this one, and do not say
    /// any more whose they are.
    Nameless(&'a Seen),
    /// Nobody can tell whether this one is.
    Unknown(u32),
}

fn serve(searches: Vec<Search>) {
    let is_abroad = |search: &Search| search.place == Where::Abroad;
    let (abroad, everywhere): (Vec<_>, Vec<_>) = searches.into_iter().partition(is_abroad);
    for (place, searches) in [(Where::Abroad, abroad), (Where::Everywhere, everywhere)] {
        if searches.is_empty() {
            continue;
        }
        let (since, mut childless) = first_and_childless(&searches);
        // Elsewhere a guardian was killed, and leaves whom it had.
        if place == Where::Everywhere {
            childless.clear();
        }
        let found = sys::reserve::with(|| orphans::census(place, since, &childless));
        let mut over = Vec::new();
        for search in searches {
            // Wakers are others' code: one that panics is not the next one's.
            sys::shielded(|| match &found {
                Ok(found) => over.extend(search.conclude(found)),
                Err(error) => search.fail(error.to_string()),
            });
        }
        let adopted = match place {
            Where::Abroad => over.iter().map(|_| Adopted::Nobody).collect(),
            Where::Everywhere => {
                adoptions::look(&over.iter().map(Search::wanted).collect::<Vec<_>>())
            }
        };
        for (mut search, adopted) in over.into_iter().zip(adopted) {
            let ended = mem::take(&mut search.ended);
            sys::shielded(|| search.answer(Ok(Found { ended, adopted })));
        }
    }
}

impl Search {
    fn wanted(&self) -> Wanted<'_> {
        Wanted {
            identity: &self.identity,
            since: self.since,
        }
    }

    /// Ends those who were found; the search itself, when none is left.
    fn conclude(mut self, found: &[Carrier]) -> Option<Self> {
        let mut spared = None;
        for Carrier { seen, identity } in found {
            if identity.as_ref() == Some(&self.identity) {
                // Our own program is no process of the server's: the init of
                // its namespace, or what was about to become it.
                if !orphans::is_guardian(seen.pid) {
                    self.ended.insert(seen.pid, seen.name.clone());
                }
                let killed = look::kill(seen.pid, |now| now.start_time == seen.start_time);
                if let Err(error) = killed {
                    spared = Some(format!("process {} cannot be killed: {error}", seen.pid));
                }
            }
        }
        // Its end would be waited for in vain.
        if let Some(why) = spared {
            self.fail(why);
            return None;
        }
        match self.judge(found) {
            Left::Nobody => return Some(self),
            Left::Somebody(seen) => self.again_after(seen),
            Left::Nameless(seen) => {
                let name = format!("{}, {NAMELESS}", seen.name);
                (self.awaits)(Some(Remnant::process(seen.pid, name)));
                self.again_after(seen);
            }
            Left::Unknown(pid) => {
                self.fail(format!("process {pid} does not say yet whose it is"));
            }
        }
        None
    }

    /// Finds those that are left, by this look. Pure.
    fn judge<'a>(&mut self, found: &'a [Carrier]) -> Left<'a> {
        let mut left = Left::Nobody;
        let (mut some_live, mut nameless) = (false, BTreeSet::new());
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
                    left = Left::Somebody(seen);
                }
                None if is_suspect && seen.state == ProcessState::Exiting => {
                    nameless.insert(key);
                    if !some_live {
                        left = Left::Nameless(seen);
                    }
                }
                None if is_suspect => return Left::Unknown(seen.pid),
                _ => {}
            }
        }
        self.suspects = (!some_live).then_some(nameless);
        left
    }

    /// Looks again at the end of a process.
    fn again_after(mut self, seen: &Seen) {
        self.guardian = None;
        let Some(pid) = Pid::new(seen.pid.into()) else {
            return self.fail("a process with a number that nobody has".to_owned());
        };
        let search = Arc::new(Mutex::new(Some(self)));
        let take = |search: &Mutex<Option<Self>>| {
            let mut search = search.lock().unwrap_or_else(PoisonError::into_inner);
            search.take()
        };
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
        self.answer(Err(io::Error::other(why)));
    }

    fn answer(&mut self, found: io::Result<Found>) {
        if let Some(done) = self.done.take() {
            done(found);
        }
    }
}

/// Answers, if nobody has: the search has panicked. Who waits for the answer would wait
/// for ever.
impl Drop for Search {
    fn drop(&mut self) {
        sys::shielded(|| self.answer(Err(io::Error::other("the search was broken off"))));
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
            start_time: 100,
            name: String::new(),
            state,
        };
        Carrier { seen, identity }
    }

    fn ending(pid: u32) -> Carrier {
        carrier(pid, None, ProcessState::Exiting)
    }

    fn search() -> Search {
        Search {
            place: Where::Abroad,
            identity: server(1),
            since: 100,
            guardian: Some(2),
            ended: Ended::new(),
            suspects: None,
            awaits: Box::new(|_| ()),
            done: None,
        }
    }

    fn waits_for(search: &mut Search, found: &[Carrier]) -> Option<u32> {
        match search.judge(found) {
            Left::Somebody(seen) | Left::Nameless(seen) => Some(seen.pid),
            Left::Nobody => None,
            Left::Unknown(pid) => panic!("unknown: {pid}"),
        }
    }

    #[test]
    fn those_who_come_later_keep_back_no_proof() {
        let mut search = self::search();
        let other = carrier(5, Some(server(2)), ProcessState::Live);
        assert_eq!(waits_for(&mut search, &[other, ending(10)]), Some(10));
        assert_eq!(waits_for(&mut search, &[ending(10), ending(11)]), Some(10));
        // Those of other servers come and go for ever.
        assert_eq!(waits_for(&mut search, &[ending(11), ending(12)]), None);
        let executing = carrier(13, None, ProcessState::Live);
        assert_eq!(waits_for(&mut search, &[executing]), None);
    }

    #[test]
    fn whoever_may_have_been_started_by_one_of_them_is_waited_for() {
        let own = || carrier(10, Some(server(1)), ProcessState::Live);
        let mut search = self::search();
        assert_eq!(waits_for(&mut search, &[own()]), Some(10));
        assert_eq!(waits_for(&mut search, &[ending(11)]), Some(11));
        assert_eq!(waits_for(&mut search, &[ending(11), ending(12)]), Some(11));
        assert_eq!(waits_for(&mut search, &[ending(12)]), None);
        // Whatever comes, its own word counts.
        assert_eq!(waits_for(&mut search, &[own()]), Some(10));
        assert!(matches!(
            search.judge(&[own(), ending(11)]),
            Left::Somebody(_)
        ));
        assert!(matches!(search.judge(&[ending(11)]), Left::Nameless(_)));
        let executing = [carrier(13, None, ProcessState::Live)];
        assert_eq!(self::search().judge(&executing), Left::Unknown(13));
    }
}
