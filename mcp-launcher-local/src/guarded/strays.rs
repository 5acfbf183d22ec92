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

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use super::look;
use crate::identity::Cookie;
use crate::orphans::{self, Carrier, Where};
use crate::sys::{self, Pid, ProcessState, Seen};

/// Those who were found and sent SIGKILL: their names, by pid.
pub(super) type Ended = BTreeMap<u32, String>;

/// Starts the thread that searches, if it does not run yet.
///
/// Called before there is anything to search for: whether an end can be proven
/// must not depend on whether a thread can be started at that moment.
pub(super) fn start() -> io::Result<()> {
    static RUNS: Mutex<bool> = Mutex::new(false);
    let mut runs = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
    if !*runs {
        let thread = thread::Builder::new().name("mcp-lifecycle-search".to_owned());
        thread.spawn(|| {
            loop {
                serve(next());
            }
        })?;
        *runs = true;
    }
    Ok(())
}

/// Looks for those that carry `identity`, ends them, and calls `done` with their
/// names when none is left. With an error if nobody could look.
///
/// Nobody who started before `since`, in clock ticks since boot, can be one of
/// them. `done` is called on the search's thread.
pub(super) fn end(
    place: Where,
    identity: Cookie,
    since: u64,
    done: impl FnOnce(io::Result<Ended>) + Send + 'static,
) {
    Search {
        place,
        identity,
        since,
        ended: Ended::new(),
        done: Box::new(done),
    }
    .enqueue();
}

struct Search {
    place: Where,
    identity: Cookie,
    since: u64,
    ended: Ended,
    done: Box<dyn FnOnce(io::Result<Ended>) + Send>,
}

/// One search at a time, on a thread of its own: a process whose memory the
/// kernel has locked keeps waiting whoever reads its environment.
static WAITING: Mutex<Vec<Search>> = Mutex::new(Vec::new());

static SOMEBODY_WAITS: Condvar = Condvar::new();

fn next() -> Vec<Search> {
    let waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    let waiting = SOMEBODY_WAITS.wait_while(waiting, |waiting| waiting.is_empty());
    std::mem::take(&mut *waiting.unwrap_or_else(PoisonError::into_inner))
}

fn serve(searches: Vec<Search>) {
    let is_abroad = |search: &Search| search.place == Where::Abroad;
    let (abroad, everywhere): (Vec<_>, Vec<_>) = searches.into_iter().partition(is_abroad);
    for (place, searches) in [(Where::Abroad, abroad), (Where::Everywhere, everywhere)] {
        if searches.is_empty() {
            continue;
        }
        let found = sys::reserve::with(|| orphans::census(place));
        for search in searches {
            // Wakers are others' code: one that panics is not the next one's.
            sys::shielded(|| match &found {
                Ok(found) => search.conclude(found),
                Err(error) => search.fail(error.to_string()),
            });
        }
    }
}

impl Search {
    fn enqueue(self) {
        let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(self);
        drop(waiting);
        SOMEBODY_WAITS.notify_one();
    }

    fn conclude(mut self, found: &[Carrier]) {
        let mut wait_for = None;
        for Carrier { seen, identity } in found {
            match identity {
                Some(identity) if *identity == self.identity => {
                    // Our own program is no process of the server's: the init of
                    // its namespace, or what was about to become it.
                    if !orphans::is_guardian(seen.pid) {
                        self.ended.insert(seen.pid, seen.name.clone());
                    }
                    look::kill(seen, |_| true);
                }
                // It has nothing any more to say whose it was.
                None if seen.start_time >= self.since && seen.state == ProcessState::Exiting => {}
                None if seen.start_time >= self.since => {
                    let why = format!("process {} does not say yet whose it is", seen.pid);
                    return self.fail(why);
                }
                _ => continue,
            }
            wait_for = Some(seen.clone());
        }
        match wait_for {
            Some(seen) => self.again_after(&seen),
            None => (self.done)(Ok(self.ended)),
        }
    }

    /// Looks again at the end of a process.
    fn again_after(self, seen: &Seen) {
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
                search.enqueue();
            }
        };
        let still = || sys::see(seen.pid).is_some_and(|now| now.start_time == seen.start_time);
        if let Err(error) = sys::watch_process(pid, still, look_again)
            && let Some(search) = take(&search)
        {
            search.fail(format!("process {} cannot be watched: {error}", seen.pid));
        }
    }

    fn fail(self, why: String) {
        (self.done)(Err(io::Error::other(why)));
    }
}
