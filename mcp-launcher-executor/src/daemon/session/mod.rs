//! One client's session: its processes, its lease, what waits to be sent.

mod ending;
mod outbox;
mod owner;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;

use self::outbox::Outbox;
pub(super) use self::outbox::{AnswerPriority, Next};
use super::Shared;
use super::audit::Audit;
use super::budget::Portion;
use super::doubts::Doubts;
use super::limits::{Limits, MOST_LAUNCHES, MOST_WAITING};
use super::origin::Share;
use super::process::{Owner as _, Process};
use crate::mutex::Mutex;
use crate::protocol::RequestId;
use crate::protocol::extension::Lifecycle;

/// A place in the table of processes.
pub(super) enum Slot {
    /// Being launched; the answer goes to this request.
    Starting {
        answer_to: RequestId,
        cancel: CancellationToken,
    },
    /// Launched.
    Running(Arc<Process>),
}

pub(super) struct Session {
    pub(super) id: String,
    pub(super) audit: Arc<Audit>,
    pub(super) doubts: Arc<Doubts>,
    pub(super) limits: Arc<Limits>,
    pub(super) lease: Duration,
    /// Whose it was when it was opened.
    pub(super) of: Share,
    /// Places for processes of that share.
    pub(super) places: Arc<Semaphore>,
    /// How many there are.
    pub(super) most_processes: usize,
    /// The largest frame that its client takes, in bytes.
    pub(super) largest_answer: usize,
    /// The part of the daemon's memory that it has taken.
    pub(super) portion: Arc<Portion>,
    /// The agreed extensions; `None` with a plain client.
    pub(super) lifecycle: Option<Lifecycle>,
    pub(super) processes: Mutex<HashMap<String, Slot>>,
    outbox: Mutex<Outbox>,
    /// Grows with every connection; only the latest is attached.
    generation: AtomicU64,
    heard: Mutex<Instant>,
    /// A connection has it.
    connected: AtomicBool,
    /// How many large frames are being read.
    reading: AtomicU32,
    /// The daemon is about to leave: nothing is started any more.
    closing: AtomicBool,
    /// It is being ended, or has been.
    ended: AtomicBool,
    /// It has been.
    finished: CancellationToken,
    /// Cancelled when everything has to end at once.
    hurry: CancellationToken,
    /// A client has taken something while the daemon is leaving.
    delivered: Notify,
    /// Every process has been ended.
    pub(super) over: Notify,
    /// Whose turn it is to answer late, and that there may be room again.
    answering: tokio::sync::Mutex<()>,
    answer_room: Notify,
    /// Places for requests that wait for something to happen.
    pub(super) waiting: Arc<Semaphore>,
    /// Places for launches.
    pub(super) launches: Semaphore,
    /// Launches under way.
    launching: tokio_util::task::TaskTracker,
}

/// See [`Session::reading`].
pub(super) struct Reading<'a>(&'a Session);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.heard();
        self.0.reading.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Session {
    pub(super) fn new(
        id: String,
        shared: &Shared,
        kin: Option<&Self>,
        lifecycle: Option<Lifecycle>,
        takes: Option<u64>,
        of: Share,
    ) -> Arc<Self> {
        let limits = Arc::clone(&shared.limits);
        let asked = lifecycle.as_ref().and_then(|l| l.lease_ms);
        let lease = asked.map_or(limits.lease, Duration::from_millis);
        let most = shared.allowance().processes;
        // As many as there were for the first of its share.
        let most_processes = kin.map_or(most, |kin| kin.most_processes);
        let places = shared.registry.places(&of, most_processes);
        Arc::new(Self {
            audit: Audit::new(&id, &shared.counters),
            id,
            doubts: Arc::clone(&shared.doubts),
            limits,
            lease,
            of,
            places,
            most_processes,
            portion: Portion::of(&shared.budget, kin.map(|kin| &*kin.portion)),
            largest_answer: takes.map_or(usize::MAX, |takes| takes as usize),
            lifecycle,
            processes: Mutex::default(),
            outbox: Mutex::default(),
            generation: AtomicU64::new(0),
            heard: Mutex::new(Instant::now()),
            reading: AtomicU32::new(0),
            connected: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            delivered: Notify::new(),
            finished: CancellationToken::new(),
            hurry: shared.hurry.clone(),
            over: Notify::new(),
            answering: tokio::sync::Mutex::new(()),
            answer_room: Notify::new(),
            waiting: Arc::new(Semaphore::new(MOST_WAITING)),
            launches: Semaphore::new(MOST_LAUNCHES),
            launching: tokio_util::task::TaskTracker::new(),
        })
    }

    pub(super) fn is_extended(&self) -> bool {
        self.lifecycle.is_some()
    }

    /// Whether its client takes output as it is.
    pub(super) fn takes_raw_output(&self) -> bool {
        self.lifecycle.as_ref().is_some_and(|l| l.raw_output)
    }

    pub(super) fn launching(&self) -> &tokio_util::task::TaskTracker {
        &self.launching
    }

    pub(super) fn process(&self, id: &str) -> Option<Arc<Process>> {
        match self.processes.lock().get(id) {
            Some(Slot::Running(process)) => Some(Arc::clone(process)),
            _ => None,
        }
    }

    /// Returns whether it is being ended, or has been.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Returns whether it takes no more processes.
    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire) || self.has_ended()
    }

    /// The client has taken something.
    pub(super) fn taken(&self) {
        self.delivered.notify_waiters();
    }

    /// Makes its connection, if it has one, look for what has arrived.
    pub(super) fn nudge(&self) -> bool {
        let (attached, waker) = {
            let mut outbox = self.outbox.lock();
            (outbox.attached, outbox.waker.take())
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        attached
    }

    /// A sign of life of the client.
    pub(super) fn heard(&self) {
        *self.heard.lock() = Instant::now();
    }

    /// A large frame is being read, until this is dropped: its client lives.
    pub(super) fn reading(&self) -> Reading<'_> {
        self.reading.fetch_add(1, Ordering::AcqRel);
        Reading(self)
    }

    pub(super) fn is_reading(&self) -> bool {
        self.reading.load(Ordering::Acquire) > 0
    }

    /// When the lease runs out, unless the client is heard of.
    pub(super) fn expires(&self) -> Instant {
        *self.heard.lock() + self.lease
    }

    /// How long it has been worth little to its client: it has no process, none is
    /// being started or undone, and there is no connection.
    pub(super) fn abandoned(&self) -> Option<Duration> {
        let heard = *self.heard.lock();
        let is_idle = self.processes.lock().is_empty() && self.launching.is_empty();
        (is_idle && !self.connected.load(Ordering::Acquire)).then(|| heard.elapsed())
    }

    /// A connection takes the session over; the one before loses it.
    pub(super) fn attach(&self) -> u64 {
        self.heard();
        let generation = self.generation.fetch_add(1, Ordering::AcqRel) + 1;
        self.connected.store(true, Ordering::Release);
        let mut outbox = self.outbox.lock();
        outbox.detach();
        let previous = outbox.waker.take();
        drop(outbox);
        self.answer_room.notify_waiters();
        if let Some(waker) = previous {
            waker.wake();
        }
        generation
    }

    /// The client is ready: everything that it does not have is sent (again).
    pub(super) fn begin_sending(&self, generation: u64) {
        let running = self.running();
        self.outbox.lock().attached = true;
        for process in running {
            process.log.lock().reattached(generation);
            self.wake(&process);
        }
    }

    pub(super) fn is_attached_as(&self, generation: u64) -> bool {
        self.generation.load(Ordering::Acquire) == generation
    }

    /// The connection is lost.
    pub(super) fn detach(&self, generation: u64) {
        if self.is_attached_as(generation) {
            self.connected.store(false, Ordering::Release);
            let mut outbox = self.outbox.lock();
            outbox.detach();
            drop(outbox);
            self.answer_room.notify_waiters();
            self.taken();
        }
    }
}
