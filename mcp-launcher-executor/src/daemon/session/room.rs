//! Room in what a session may take of the daemon's memory.

use std::sync::Arc;

use super::super::process::Process;
use super::{Session, Slot};

impl Session {
    /// Makes room for so many bytes, as far as copies of what was sent stand in
    /// the way, which a plain client might read again.
    pub(in crate::daemon) fn make_room(&self, bytes: usize) {
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

    /// What was launched and is in the table.
    pub(super) fn running(&self) -> Vec<Arc<Process>> {
        let processes = self.processes();
        let running = processes.values().filter_map(|slot| match slot {
            Slot::Running(process) => Some(Arc::clone(process)),
            Slot::Starting { .. } => None,
        });
        running.collect()
    }
}
