//! The queue for one client: answers, and the processes that have events.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use super::super::process::Process;
use super::Session;

/// Bytes of answers that wait, before those that can wait are made.
const HIGH_WATER: usize = 64 * 1024;

#[derive(Default)]
pub(super) struct Outbox {
    pub(super) attached: bool,
    answers: VecDeque<(String, AnswerPriority)>,
    /// Bytes in `answers`.
    answer_bytes: usize,
    /// Processes with something to send, each once: one event each per turn.
    pub(super) ready: VecDeque<Arc<Process>>,
    pub(super) waker: Option<Waker>,
}

impl Outbox {
    /// Nobody takes anything: answers are asked for again.
    pub(super) fn detach(&mut self) {
        self.attached = false;
        self.answers.clear();
        self.answer_bytes = 0;
    }
}

/// Whether somebody waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::daemon) enum AnswerPriority {
    Now,
    /// It may leave with the next frame.
    Soon,
}

/// The next thing to send.
pub(in crate::daemon) enum Next {
    Answer(String, AnswerPriority),
    Of(Arc<Process>),
}

impl Session {
    /// An answer. Without a connection it is dropped: a client asks again.
    pub(in crate::daemon) fn answer(&self, frame: String) {
        self.push_answer(frame, AnswerPriority::Now);
    }

    /// Bytes of answers that no connection has taken yet.
    pub(in crate::daemon) fn answers_waiting(&self) -> usize {
        self.outbox.lock().answer_bytes
    }

    /// An answer that is made when there is room for it: however many wait for
    /// the same thing to happen, only a few are held in memory. Cancel safe.
    pub(in crate::daemon) async fn answer_in_turn(&self, make: impl FnOnce() -> String) {
        let _turn = self.answering.lock().await;
        loop {
            let mut room = std::pin::pin!(self.answer_room.notified());
            room.as_mut().enable();
            if self.has_ended() || self.answers_waiting() <= HIGH_WATER {
                break;
            }
            room.await;
        }
        // Without a connection it would be made for nothing.
        if self.outbox.lock().attached {
            self.answer(make());
        }
    }

    pub(super) fn push_answer(&self, frame: String, priority: AnswerPriority) {
        let mut outbox = self.outbox.lock();
        if outbox.attached {
            outbox.answer_bytes += frame.len();
            outbox.answers.push_back((frame, priority));
        }
        let waker = outbox.waker.take();
        drop(outbox);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Its connection is awake and will look for more: it need not be woken.
    pub(in crate::daemon) fn is_awake(&self, generation: u64) {
        let mut outbox = self.outbox.lock();
        if self.is_attached_as(generation) {
            outbox.waker = None;
        }
    }

    /// Takes what to send next, in turn; registers for more otherwise.
    pub(in crate::daemon) fn next(&self, generation: u64, waker: &Waker) -> Option<Next> {
        let mut outbox = self.outbox.lock();
        if !self.is_attached_as(generation) {
            return None;
        }
        if !outbox.attached {
            outbox.waker = Some(waker.clone());
            return None;
        }
        if let Some((answer, priority)) = outbox.answers.pop_front() {
            outbox.answer_bytes -= answer.len();
            let room = outbox.answer_bytes <= HIGH_WATER;
            drop(outbox);
            if room {
                self.answer_room.notify_waiters();
            }
            return Some(Next::Answer(answer, priority));
        }
        if let Some(process) = outbox.ready.pop_front() {
            process.queued.store(false, Ordering::Release);
            return Some(Next::Of(process));
        }
        outbox.waker = Some(waker.clone());
        None
    }
}
