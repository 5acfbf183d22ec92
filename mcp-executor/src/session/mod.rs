//! One client's session: its processes, its lease, its output queue.

mod ending;
mod outbox;
mod process;
#[cfg(test)]
mod tests;

use mcp_lifecycle_core::lock::Lock;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;

use self::outbox::Outbox;
pub(super) use self::outbox::{AnswerPriority, Next};
pub(super) use self::process::Process;
use super::Shared;
use super::audit::Audit;
use super::doubts::Doubts;
use super::limits::{Limits, MOST_LAUNCHES, MOST_WAITING};
use super::origin::Share;
use super::quota::Portion;
use crate::protocol::RequestId;
use crate::protocol::extension::Lifecycle;

pub(super) enum Slot {
    /// In launch; the answer goes to this request.
    Starting {
        answer_to: RequestId,
        cancel: CancellationToken,
    },
    Running(Arc<Process>),
}

pub(super) struct Session {
    pub(super) id: String,
    pub(super) audit: Arc<Audit>,
    pub(super) doubts: Arc<Doubts>,
    pub(super) limits: Arc<Limits>,
    pub(super) lease: Duration,
    /// The share that opened it.
    pub(super) of: Share,
    pub(super) portion: Arc<Portion>,
    pub(super) lifecycle: Option<Lifecycle>,
    pub(super) processes: Lock<HashMap<String, Slot>>,
    outbox: Lock<Outbox>,
    /// Number of its connections; only the latest is attached.
    generation: AtomicU64,
    heard: Lock<Instant>,
    /// `true` once the daemon shuts down: nothing is started any more.
    closing: AtomicBool,
    ended: AtomicBool,
    pub(super) finished: CancellationToken,
    /// Cancelled when everything must end without grace.
    hurry: CancellationToken,
    /// Notified when the client has received something during a shutdown.
    delivered: Notify,
    /// Serializes late answers, and notifies of room for them.
    answering: tokio::sync::Mutex<()>,
    answer_room: Notify,
    pub(super) waiting: Arc<Semaphore>,
    pub(super) launches: Semaphore,
    pub(super) launching: tokio_util::task::TaskTracker,
}

impl Session {
    pub(super) fn new(
        id: String,
        shared: &Shared,
        lifecycle: Option<Lifecycle>,
        of: Share,
    ) -> Arc<Self> {
        let limits = Arc::clone(&shared.limits);
        let asked = lifecycle.as_ref().and_then(|l| l.lease_ms);
        let lease = asked.map_or(limits.lease, Duration::from_millis);
        let portion = Portion::of(&shared.account(&of), &limits);
        Arc::new(Self {
            audit: Audit::new(&id, &shared.counters),
            id,
            doubts: Arc::clone(&shared.doubts),
            limits,
            lease,
            of,
            portion,
            lifecycle,
            processes: Lock::default(),
            outbox: Lock::default(),
            generation: AtomicU64::new(0),
            heard: Lock::new(Instant::now()),
            closing: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            delivered: Notify::new(),
            finished: CancellationToken::new(),
            hurry: shared.hurry.clone(),
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

    pub(super) fn process(&self, id: &str) -> Option<Arc<Process>> {
        match self.processes.lock().get(id) {
            Some(Slot::Running(process)) => Some(Arc::clone(process)),
            _ => None,
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire) || self.has_ended()
    }

    pub(super) fn taken(&self) {
        self.delivered.notify_waiters();
    }

    /// Makes its connection, if any, read pending input.
    pub(super) fn nudge(&self) -> bool {
        self.change(|outbox| outbox.attached)
    }

    pub(super) fn heard(&self) {
        *self.heard.lock() = Instant::now();
    }

    pub(super) fn expires(&self) -> Instant {
        *self.heard.lock() + self.lease
    }

    pub(super) fn attach(&self) -> u64 {
        self.heard();
        let generation = self.generation.fetch_add(1, Ordering::AcqRel) + 1;
        self.change(Outbox::detach);
        self.answer_room.notify_waiters();
        generation
    }

    /// Starts sending, including everything that the client may have missed.
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

    pub(super) fn detach(&self, generation: u64) {
        if self.is_attached_as(generation) {
            self.outbox.lock().detach();
            self.answer_room.notify_waiters();
            self.taken();
        }
    }
}
