use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::outbox::AnswerPriority;
use super::{Process, Session, Slot};
use crate::log::Keep;
use crate::protocol::process::{WriteResult, WriteStatus};
use crate::protocol::{RequestId, encode_result};

impl Session {
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
