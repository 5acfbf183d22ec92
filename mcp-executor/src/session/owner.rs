//! The session as the owner of its processes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::super::log::Keep;
use super::super::process::{Member, Owner, Process};
use super::outbox::AnswerPriority;
use super::{Session, Slot};
use crate::protocol::process::{WriteResult, WriteStatus};
use crate::protocol::{RequestId, encode_result};

impl Session {
    /// Returns the state for its next process.
    pub(crate) fn member(self: &Arc<Self>) -> Member {
        let (keep, window) = match &self.lifecycle {
            Some(lifecycle) => {
                let window = lifecycle.window.map_or(self.limits.window, |w| w as usize);
                (Keep::Acknowledged, window)
            }
            // Same as codex.
            None => (Keep::Bytes(1 << 20), self.limits.window),
        };
        let owner: Arc<dyn Owner> = Arc::clone(self) as _;
        Member {
            session_id: self.id.clone(),
            owner: Arc::downgrade(&owner),
            audit: Arc::clone(&self.audit),
            doubts: Arc::clone(&self.doubts),
            portion: Arc::clone(&self.portion),
            limits: Arc::clone(&self.limits),
            keep,
            window,
            extended: self.is_extended(),
        }
    }

    /// Returns the launched processes in the table.
    pub(super) fn running(&self) -> Vec<Arc<Process>> {
        let processes = self.processes.lock();
        let running = processes.values().filter_map(|slot| match slot {
            Slot::Running(process) => Some(Arc::clone(process)),
            Slot::Starting { .. } => None,
        });
        running.collect()
    }
}

impl Owner for Session {
    fn wake(&self, process: &Arc<Process>) {
        if process.queued.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut outbox = self.outbox.lock();
        outbox.ready.push_back(Arc::clone(process));
        let waker = outbox.waker.take();
        drop(outbox);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Answers a write. Our client has other writes in flight, so the answer can share a packet
    /// with the server's output.
    fn answer_write(&self, id: &RequestId, status: WriteStatus) {
        let priority = match (self.is_extended(), status) {
            (true, WriteStatus::Accepted) => AnswerPriority::Soon,
            _ => AnswerPriority::Now,
        };
        self.push_answer(encode_result(id, &WriteResult { status }), priority);
    }

    fn make_room(&self, bytes: usize) {
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

    fn remove(&self, process: &Process) {
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
