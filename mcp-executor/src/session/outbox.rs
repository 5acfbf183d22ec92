use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use super::{Process, Session, Slot};
use crate::log::Keep;
use crate::protocol::process::{WriteResult, WriteStatus};
use crate::protocol::{RequestId, encode_result};

/// Queued bytes of answers from which late answers wait.
const HIGH_WATER: usize = 64 * 1024;

#[derive(Default)]
pub(super) struct Outbox {
    pub(super) attached: bool,
    answers: VecDeque<(String, AnswerPriority)>,
    answer_bytes: usize,
    /// Processes with events, each once: one event each per turn.
    pub(super) ready: VecDeque<Arc<Process>>,
    pub(super) waker: Option<Waker>,
}

impl Outbox {
    /// Drops all answers, which the client requests again.
    pub(super) fn detach(&mut self) {
        self.attached = false;
        self.answers.clear();
        self.answer_bytes = 0;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerPriority {
    Now,
    /// It may be sent with the next frame.
    Soon,
}

pub(crate) enum Next {
    Answer(String, AnswerPriority),
    Of(Arc<Process>),
}

impl Session {
    /// Queues an answer. Without a connection it is dropped, since the client repeats the request.
    pub(crate) fn answer(&self, frame: String) {
        self.push_answer(frame, AnswerPriority::Now);
    }

    pub(crate) fn answers_waiting(&self) -> usize {
        self.outbox.lock().answer_bytes
    }

    /// Queues an answer once there is room. Only a few of many simultaneous answers are in memory.
    /// Cancel safe.
    pub(crate) async fn answer_in_turn(&self, make: impl FnOnce() -> String) {
        let _turn = self.answering.lock().await;
        loop {
            let mut room = std::pin::pin!(self.answer_room.notified());
            room.as_mut().enable();
            if self.has_ended() || self.answers_waiting() <= HIGH_WATER {
                break;
            }
            room.await;
        }
        if self.outbox.lock().attached {
            self.answer(make());
        }
    }

    pub(super) fn push_answer(&self, frame: String, priority: AnswerPriority) {
        self.change(|outbox| {
            if outbox.attached {
                outbox.answer_bytes += frame.len();
                outbox.answers.push_back((frame, priority));
            }
        });
    }

    /// Changes the outbox and wakes the connection, if any.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Outbox) -> T) -> T {
        let (changed, waker) = {
            let mut outbox = self.outbox.lock();
            (change(&mut outbox), outbox.waker.take())
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        changed
    }

    pub(crate) fn is_awake(&self, generation: u64) {
        let mut outbox = self.outbox.lock();
        if self.is_attached_as(generation) {
            outbox.waker = None;
        }
    }

    pub(crate) fn next(&self, generation: u64, waker: &Waker) -> Option<Next> {
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

    /// Returns how the output of its processes is kept, and how far it may be ahead.
    pub(super) fn output_limits(&self) -> (Keep, usize) {
        match &self.lifecycle {
            Some(lifecycle) => {
                let window = lifecycle.window.map_or(self.limits.window, |w| w as usize);
                (Keep::Acknowledged, window)
            }
            // Same as codex.
            None => (Keep::Bytes(1 << 20), self.limits.window),
        }
    }

    pub(super) fn running(&self) -> Vec<Arc<Process>> {
        let processes = self.processes.lock();
        let running = processes.values().filter_map(|slot| match slot {
            Slot::Running(process) => Some(Arc::clone(process)),
            Slot::Starting { .. } => None,
        });
        running.collect()
    }

    pub(crate) fn wake(&self, process: &Arc<Process>) {
        if !process.queued.swap(true, Ordering::AcqRel) {
            self.change(|outbox| outbox.ready.push_back(Arc::clone(process)));
        }
    }

    /// Answers a write. Our client has other writes in flight, so the answer can share a packet
    /// with the server's output.
    pub(crate) fn answer_write(&self, id: &RequestId, status: WriteStatus) {
        let priority = match (self.is_extended(), status) {
            (true, WriteStatus::Accepted) => AnswerPriority::Soon,
            _ => AnswerPriority::Now,
        };
        self.push_answer(encode_result(id, &WriteResult { status }), priority);
    }

    /// Frees memory, as far as it is used by sent output that a plain client might read again.
    pub(crate) fn make_room(&self, bytes: usize) {
        if self.is_extended() {
            return;
        }
        for process in self.running() {
            if self.portion.room() >= bytes {
                return;
            }
            process.forget_sent();
        }
    }

    /// Forgets exactly this process; its unsent output is dropped.
    pub(crate) fn remove(&self, process: &Process) {
        let mut processes = self.processes.lock();
        if let Some(Slot::Running(there)) = processes.get(&process.id)
            && std::ptr::eq(&**there, process)
        {
            processes.remove(&process.id);
        }
        drop(processes);
        process.abandon();
        self.taken();
    }
}
