//! The state of one tree behind its guardian, and the primitives that end it.

use std::process::ExitStatus;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use std::{fmt, io};

use mcp_lifecycle_core::launch::{Containment, ServerIdentity};
use mcp_lifecycle_core::lock::Lock;

use super::start::Place;
use crate::cgroup::Leaf;
use crate::conclusion::{Conclusion, Event, decide};
use crate::ending::{Ending, State};
use crate::identity::Cookie;
use crate::orphans::Entry;
use crate::plan::Why;
use crate::program::GuardianHandle;
use crate::program::protocol::{Request, Stage};
use crate::sys::{self, ProcessState};

/// The outcome of the start: the pid of the program, or the stage that failed and its `errno`.
pub(super) type Started = Result<u32, (Stage, i32)>;

/// The state of a tree, which the watcher shares: it is reaped even when its owner is dropped.
#[doc(hidden)]
pub struct Guarded {
    pub(super) guardian: GuardianHandle,
    start_time: OnceLock<Option<u64>>,
    /// The time before its start, in clock ticks since boot.
    pub(super) since: u64,
    pub(super) started: OnceLock<Started>,
    pub ending: Ending,
    pub(super) leaf: Result<Leaf, String>,
    pub(super) pid_namespace: bool,
    pub(super) identity: Option<Cookie>,
    pub(super) entry: Lock<Option<Entry>>,
    containment: Containment,
    /// How the guardian ended. Set when it is reaped: its pid may be reused from then on.
    pub(super) guardian_end: OnceLock<String>,
    pub(super) conclusion: Lock<Conclusion>,
    /// Reaps the guardian by the owner of its process, where this crate has not started it.
    pub(super) reap: Lock<Option<Reap>>,
    /// The name of the program in the record of the end, which a launcher keeps by itself.
    pub(super) program: OnceLock<String>,
}

pub(crate) type Reap = Box<dyn FnOnce() -> io::Result<Option<ExitStatus>> + Send>;

impl Guarded {
    pub(super) fn new(guardian: GuardianHandle, place: Place) -> Arc<Self> {
        sys::reserve::keep();
        let mut plan = place.plan;
        if let (Err(why), Ok(_)) = (&place.leaf, &plan.cgroups) {
            plan.cgroups = Err(Why::from(why.as_str()));
        }
        Arc::new(Self {
            guardian,
            start_time: OnceLock::new(),
            since: place.since,
            started: OnceLock::new(),
            ending: Ending::new(),
            leaf: place.leaf,
            pid_namespace: plan.pid_namespace,
            conclusion: Lock::new(Conclusion::guarded(place.identity.is_some())),
            identity: place.identity,
            entry: Lock::new(place.entry),
            containment: plan.containment(),
            guardian_end: OnceLock::new(),
            reap: Lock::new(None),
            program: OnceLock::new(),
        })
    }

    /// Ends a server that is not watched, and returns whether its end is proven. Blocks at most for
    /// `limit`.
    pub(super) fn end_and_wait(self: &Arc<Self>, limit: Duration) -> bool {
        if let Err(error) = self.kill() {
            crate::logged!(warn, %error, "the guardian cannot be told");
        }
        let end = Instant::now() + limit;
        if self.guardian.wait_exit(limit) {
            self.guardian_exited();
            let left = end.saturating_duration_since(Instant::now());
            self.ending.wait(left, State::over);
        }
        self.ending.is_proven()
    }

    pub(super) fn note_start(&self, pid: u32) {
        let start_time = self.start_of_child(pid);
        let _ = self.start_time.set(start_time);
        if let Some(entry) = &*self.entry.lock() {
            entry.started(pid, start_time);
        }
        self.settle_start(Ok(pid));
    }

    pub(super) fn settle_start(&self, started: Started) {
        let _ = self.started.set(started);
        self.ending.wake_all();
    }

    /// Returns the start time of the guardian's child `pid`. A stopped host reads the report late:
    /// the pid may be another process's by then.
    fn start_of_child(&self, pid: u32) -> Option<u64> {
        let seen = sys::see(pid).filter(|seen| seen.parent == self.guardian.pid())?;
        (!self.is_guardian_over()).then_some(seen.start_time)
    }

    /// Asks for the end of the tree. A guardian that was stopped is resumed first.
    pub fn ask(&self) -> io::Result<()> {
        sys::not_forked()?;
        self.guardian.resume();
        match self.guardian.send(Request::Terminate) {
            // It has ended; `gone` finds out whether the tree has ended with it.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }

    /// Ends the server by every means of this host, none of which waits for another.
    pub fn kill(self: &Arc<Self>) -> io::Result<()> {
        sys::not_forked()?;
        if self.ending.look_again() {
            self.advance(Event::Again);
            return Ok(());
        }
        if self.ending.look().over().is_some() {
            return Ok(());
        }
        let told = self.guardian.kill();
        let cut = self.leaf.as_ref().map(Leaf::kill);
        let was_cut = matches!(cut, Ok(Ok(())));
        self.guardian.resume();
        if !self.is_guardian_over() {
            let guardian = sys::see(self.guardian.pid());
            let is_held = guardian.is_some_and(|seen| seen.state == ProcessState::Traced);
            if is_held {
                self.kill_descendants();
            }
            if decide::may_replace(is_held, was_cut)
                && let Err(error) = self.guardian.abandon()
            {
                crate::logged!(warn, %error, "a guardian that a tracer holds cannot be replaced");
            }
        }
        if let Ok(Err(error)) = &cut {
            crate::logged!(warn, %error, "a cgroup cannot be killed");
        }
        if was_cut { Ok(()) } else { told }
    }

    pub(super) fn is_guardian_over(&self) -> bool {
        // Where another part of the host reaps it, its pid is free from its end on.
        self.guardian_end.get().is_some() || self.guardian.wait_exit(Duration::ZERO)
    }

    pub(super) fn guardian_end(&self) -> &str {
        self.guardian_end.get().map_or("ended", String::as_str)
    }

    pub(crate) fn main_pid(&self) -> Option<u32> {
        self.started.get()?.ok()
    }

    pub(super) fn start_time(&self) -> Option<u64> {
        self.start_time.get().copied().flatten()
    }

    pub fn containment(&self) -> &Containment {
        &self.containment
    }

    pub fn identity(&self) -> ServerIdentity {
        match self.main_pid() {
            Some(pid) => ServerIdentity::process(pid, self.start_time()),
            // The guardian was killed before it could report one.
            None => ServerIdentity::Other(format!("guardian {}", self.guardian.pid())),
        }
    }
}

impl fmt::Debug for Guarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {:?}", self.identity(), self.ending)
    }
}

#[cfg(test)]
mod tests;
