//! Restarts on request.

use super::{Phase, Relay};

impl Relay {
    /// Ends the server for a successor, which is started at once.
    pub(super) fn restart(&mut self, why: &str) {
        if self.is_leaving || self.has_host_closed {
            return;
        }
        match self.phase {
            Phase::Running => self.refuse(why),
            // The lines that wait are for the successor.
            Phase::Starting => {}
            Phase::Ending => return self.starts_again = true,
            Phase::Waiting(_) => {
                self.phase = Phase::Asleep;
                return self.wake();
            }
            Phase::Asleep | Phase::Failing => return,
        }
        self.starts_again = true;
        self.phase = Phase::Ending;
        self.own.clear();
        self.is_kept = false;
        self.close();
    }
}
