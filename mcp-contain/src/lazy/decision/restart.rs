//! Restarts, on request and for files that have changed.

use std::time::Duration;

use super::{Phase, Relay};

/// Time without a change after which files are written.
const QUIET: Duration = Duration::from_millis(300);

/// The longest wait for that, and for the end of what is in flight.
const LIMIT: Duration = Duration::from_secs(10);

/// Uptime of a server below which it may itself have changed files: its successor is not urgent.
pub(super) const YOUNG: Duration = Duration::from_secs(5);

impl Relay {
    /// Returns when the server is restarted for files that have changed.
    pub(super) fn restart_due(&self) -> Option<Duration> {
        let (first, last) = self.changed?;
        let limit = first.saturating_add(LIMIT);
        let quiet = last.saturating_add(QUIET).min(limit);
        Some(if self.is_at_rest() { quiet } else { limit })
    }

    /// Returns whether no request of host, server or relay is in flight.
    pub(super) fn is_at_rest(&self) -> bool {
        let is_asked = self.asked.values().any(|asked| !asked.is_over);
        self.flight.is_empty() && self.own.is_empty() && !is_asked
    }

    /// Ends the server for a successor, which is started at once or at the next request.
    pub(super) fn restart(&mut self, at_once: bool) {
        self.changed = None;
        match self.phase {
            _ if self.is_leaving || self.has_host_closed => return,
            Phase::Running => self.refuse("the server is restarted before it answered"),
            // The lines that wait are for the successor.
            Phase::Starting => {}
            Phase::Ending => return self.starts_again |= at_once,
            Phase::Waiting(_) => {
                self.phase = Phase::Asleep;
                return self.wake();
            }
            Phase::Asleep | Phase::Failing => return,
        }
        self.starts_again = at_once;
        self.phase = Phase::Ending;
        self.own.clear();
        self.is_kept = false;
        self.close();
    }
}
