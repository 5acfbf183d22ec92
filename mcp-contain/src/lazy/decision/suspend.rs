//! Restarts a server that has stopped reading when the machine was suspended.

use std::time::Duration;

use super::events::{Action, Work};
use super::{Phase, Relay};

/// Time in which a living server reads, works or says something. Hosts wait for 60 s.
const SILENCE: Duration = Duration::from_secs(45);

/// The server has said nothing since the machine was suspended.
#[derive(Debug, Clone, Copy)]
pub(super) enum Doubt {
    Resumed,
    /// The first request was sent at this time, and nothing else was in flight.
    Asked(Duration, Work),
}

impl Relay {
    pub(super) fn resumed(&mut self) {
        self.doubt = Some(Doubt::Resumed).filter(|_| self.phase == Phase::Running);
    }

    /// Notes a request that is about to be sent.
    pub(super) fn doubted(&mut self) {
        if self.doubt.is_some() && self.is_at_rest() && !self.is_kept {
            self.doubt = Some(Doubt::Resumed);
            self.todo.push(Action::Look);
        }
    }

    pub(super) fn silence_end(&self) -> Option<Duration> {
        match self.doubt? {
            Doubt::Asked(since, _) if !self.flight.is_empty() => since.checked_add(SILENCE),
            _ => None,
        }
    }

    /// Decides by what the server has done until now, if that is known.
    pub(super) fn looked(&mut self, work: Option<Work>) {
        match (self.doubt.take(), work) {
            (Some(Doubt::Resumed), Some(work)) => self.doubt = Some(Doubt::Asked(self.now, work)),
            (Some(Doubt::Asked(_, (had_read, _, had_used))), Some((read, 1.., used)))
                if (had_read, had_used) == (read, used) =>
            {
                self.restart(true);
            }
            _ => {}
        }
    }
}
