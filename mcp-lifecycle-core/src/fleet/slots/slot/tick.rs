use std::time::Duration;

use super::Slot;
use crate::fleet::ServerState;
use crate::fleet::restart::Time;
use crate::fleet::slots::effect::{Effect, Entry};
use crate::fleet::slots::settings::Demand;
use crate::terminate::EndReason;
use crate::terminate::timing::END_AGAIN;

/// Returns the pause after this many ends in a row without proof, for launchers that do not report
/// one by themselves.
pub(super) fn end_again_after(unproven: u32) -> Duration {
    let (first, longest) = END_AGAIN;
    first.saturating_mul(1 << unproven.min(16)).min(longest)
}

impl<E: Entry> Slot<E> {
    /// Does what is due at its [deadline](Self::deadline).
    pub(in crate::fleet::slots) fn tick(&mut self, now: Time, out: &mut Vec<Effect>) {
        match self.state {
            ServerState::Backoff => self.enter(ServerState::Queued, None),
            ServerState::Exhausted => self.reset(),
            ServerState::Unproven => self.end_again(out),
            ServerState::Ready if self.is_idle() => self.retire(&EndReason::Idle, out),
            // A call continues although its lease was returned.
            ServerState::Ready => self.idle_since = now,
            _ => {}
        }
    }

    pub(in crate::fleet::slots) fn end_again(&mut self, out: &mut Vec<Effect>) {
        if self.state == ServerState::Unproven {
            self.enter(ServerState::Ending, None);
            out.push(Effect::EndAgain { slot: self.id });
        }
    }

    pub(in crate::fleet::slots) fn deadline(&self) -> Option<Time> {
        let is_unused = self.settings.demand == Demand::OnDemand && self.waiters.is_empty();
        match self.state {
            ServerState::Ready => self.idle_deadline(),
            ServerState::Queued if is_unused => self.restarts.forget_at(),
            _ => self.next,
        }
    }

    fn idle_deadline(&self) -> Option<Time> {
        let unused = self.settings.demand == Demand::OnDemand && self.leases == 0;
        let ttl = self.settings.options.idle_ttl?;
        (unused && self.waiters.is_empty()).then(|| self.idle_since.saturating_add(ttl))
    }
}
