//! The search for those who have left the tree through a foreign PID namespace.
//!
//! A process that enters another PID namespace (`nsenter`, `podman exec`) and
//! forks twice is given to *that* namespace's first process, and not to the
//! guardian: the kernel stays within the namespace when it looks for a new
//! parent. The cgroup still holds it. Without a cgroup, this looks for it before
//! the guardian's word is believed: at the identities of those that are in
//! another PID namespace than this host, which are none on most machines.
//!
//! One search serves all servers that end at the time.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::look;
use crate::identity::Cookie;
use crate::orphans::{self, Mark};
use crate::sys::stat::is_gone;
use crate::sys::{self, Pid, ProcessState, Seen};

/// Those who were found and sent SIGKILL: their names, by pid.
pub(super) type Ended = BTreeMap<u32, String>;

/// Looks for those that carry `identity` in other PID namespaces, ends them, and
/// calls `done` with their names when none is left. With an error if nobody
/// could look.
///
/// Nobody who started before `since`, in clock ticks since boot, can be one of
/// them. `done` is called on the search's thread.
pub(super) fn end(
    identity: Cookie,
    since: u64,
    done: impl FnOnce(io::Result<Ended>) + Send + 'static,
) {
    Queue::add(Search {
        identity,
        since,
        ended: Ended::new(),
        done: Box::new(done),
    });
}

struct Search {
    identity: Cookie,
    since: u64,
    ended: Ended,
    done: Box<dyn FnOnce(io::Result<Ended>) + Send>,
}

/// One search at a time, on a thread of its own: a process whose memory the
/// kernel has locked keeps waiting whoever reads its environment.
static QUEUE: Mutex<Queue> = Mutex::new(Queue {
    is_served: false,
    waiting: Vec::new(),
});

struct Queue {
    /// A thread takes from it until it is empty.
    is_served: bool,
    waiting: Vec<Search>,
}

impl Queue {
    fn lock() -> MutexGuard<'static, Self> {
        QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(search: Search) {
        let mut queue = Self::lock();
        queue.waiting.push(search);
        if std::mem::replace(&mut queue.is_served, true) {
            return;
        }
        drop(queue);
        let thread = thread::Builder::new().name("mcp-lifecycle-search".to_owned());
        if let Err(error) = thread.spawn(Self::serve) {
            let mut queue = Self::lock();
            queue.is_served = false;
            let waiting = std::mem::take(&mut queue.waiting);
            drop(queue);
            for search in waiting {
                sys::shielded(|| search.fail(error.to_string()));
            }
        }
    }

    fn serve() {
        loop {
            let mut queue = Self::lock();
            let waiting = std::mem::take(&mut queue.waiting);
            if waiting.is_empty() {
                queue.is_served = false;
                return;
            }
            drop(queue);
            let found = sys::reserve::with(foreigners);
            for search in waiting {
                // Wakers are others' code: one that panics is not the next one's.
                sys::shielded(|| match &found {
                    Ok(found) => search.conclude(found),
                    Err(error) => search.fail(error.to_string()),
                });
            }
        }
    }
}

impl Search {
    fn conclude(mut self, found: &[Foreigner]) {
        let mut wait_for = None;
        for Foreigner { seen, identity } in found {
            match identity {
                Some(identity) if *identity == self.identity => {
                    look::kill(seen, |_| true);
                    self.ended.insert(seen.pid, seen.name.clone());
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
                Queue::add(search);
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

/// A process in another PID namespace than this host.
struct Foreigner {
    seen: Seen,
    /// `None` while it is being executed, or on its way out.
    identity: Option<Cookie>,
}

enum Look {
    Foreign(Foreigner),
    /// In the namespace of this host, or without an identity, or not to be
    /// looked at by this user.
    Other,
    /// There was one, which may have left a child that was not listed.
    Vanished,
}

/// How often those are listed who have come meanwhile.
const LISTINGS_MAX: usize = 16;

/// How long the search waits for processes that are being executed: so often a
/// millisecond.
const PASSING_MAX: usize = 8;

/// Who lives in another PID namespace than this host and carries an identity, or
/// is about to say so.
///
/// # Errors
///
/// Somebody could not be looked at who is not another user's.
fn foreigners() -> io::Result<Vec<Foreigner>> {
    let home = orphans::home()?;
    let mut known = BTreeSet::new();
    let mut found = Vec::new();
    for _ in 0..LISTINGS_MAX {
        let mut complete = true;
        for pid in sys::numbers_in_proc()? {
            if known.contains(&pid) {
                continue;
            }
            match look_at(pid, home)? {
                Look::Vanished => {
                    complete = false;
                    continue;
                }
                Look::Foreign(foreigner) => found.push(foreigner),
                Look::Other => {}
            }
            known.insert(pid);
        }
        if complete {
            return settled(found, home);
        }
    }
    Err(io::Error::other(
        "processes come and go faster than they can be looked at",
    ))
}

/// Waits shortly for those that are being executed.
fn settled(mut found: Vec<Foreigner>, home: u64) -> io::Result<Vec<Foreigner>> {
    let is_passing = |it: &Foreigner| it.identity.is_none() && it.seen.state == ProcessState::Live;
    for _ in 0..PASSING_MAX {
        if !found.iter().any(is_passing) {
            break;
        }
        thread::sleep(Duration::from_millis(1));
        let (passing, rest): (Vec<_>, Vec<_>) = found.into_iter().partition(is_passing);
        found = rest;
        for mut foreigner in passing {
            match look_at(foreigner.seen.pid, home)? {
                Look::Foreign(now) => found.push(now),
                Look::Other => {}
                // It may have left a child: after its end, all is looked at again.
                Look::Vanished => {
                    foreigner.seen.state = ProcessState::Exiting;
                    found.push(foreigner);
                }
            }
        }
    }
    Ok(found)
}

fn look_at(pid: u32, home: u64) -> io::Result<Look> {
    match orphans::namespace_of(pid) {
        Ok(namespace) if namespace == home => return Ok(Look::Other),
        Ok(_) => {}
        Err(error) if is_gone(&error) => return Ok(Look::Vanished),
        // Also said of one that goes at this moment.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Ok(match std::fs::exists(format!("/proc/{pid}"))? {
                true => Look::Other,
                false => Look::Vanished,
            });
        }
        Err(error) => return Err(error),
    }
    let Some(seen) = sys::look_at(pid)? else {
        return Ok(Look::Vanished);
    };
    if seen.state == ProcessState::Dead {
        return Ok(Look::Other);
    }
    let identity = match orphans::mark_of(pid) {
        Ok(Some(Mark::Cookie(identity))) => Some(identity),
        Ok(Some(Mark::Passing)) => None,
        Ok(Some(Mark::None | Mark::Unreadable | Mark::Unseen(_))) => return Ok(Look::Other),
        Ok(None) => return Ok(Look::Vanished),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(Look::Other),
        Err(error) => return Err(error),
    };
    Ok(Look::Foreign(Foreigner { seen, identity }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_can_be_looked_at() {
        let own = orphans::home().unwrap();
        let all = sys::numbers_in_proc().unwrap().len();
        let begun = std::time::Instant::now();
        let found = foreigners().unwrap();
        eprintln!("{} of {all} in {:?}", found.len(), begun.elapsed());
        assert!(matches!(look_at(std::process::id(), own), Ok(Look::Other)));
        assert!(matches!(look_at(u32::MAX, own), Ok(Look::Vanished)));
        // Seen from anywhere else, this process is one that can be looked at.
        let elsewhere = look_at(std::process::id(), own ^ 1).unwrap();
        assert!(!matches!(elsewhere, Look::Vanished));
    }
}
