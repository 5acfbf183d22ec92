//! Makes happen what is due.

use std::time::Duration;

use super::{Phase, Slot};
use crate::fleet::restart::Time;
use crate::fleet::slots::effect::{Effect, Liveness};
use crate::fleet::slots::settings::Demand;
use crate::terminate::report::EndReason;
use crate::terminate::timing::END_AGAIN;

/// The time to wait after so many ends in a row that gave no proof. A proof that becomes
/// possible meanwhile is noticed at once, where the launcher waits for it; this is for
/// those that have to be asked.
pub(super) fn end_again_after(unproven: u32) -> Duration {
    let (first, longest) = END_AGAIN;
    first.saturating_mul(1 << unproven.min(16)).min(longest)
}

impl<G: Liveness> Slot<G> {
    /// Makes happen what is due.
    pub(in crate::fleet::slots) fn tick(&mut self, now: Time, out: &mut Vec<Effect>) {
        match self.phase {
            Phase::Backoff { until } if until <= now => self.phase = Phase::Vacant,
            Phase::Exhausted { until: Some(until) } if until <= now => self.reset(),
            Phase::Uncertain { retry_at } if retry_at <= now => self.end_again(out),
            Phase::Ready { .. } if self.idle_deadline().is_some_and(|at| at <= now) => {
                if self.is_idle() {
                    self.retire(&EndReason::Idle, out);
                } else {
                    // A call goes on though its lease was returned.
                    self.idle_since = now;
                }
            }
            _ => {}
        }
    }

    pub(in crate::fleet::slots) fn end_again(&mut self, out: &mut Vec<Effect>) {
        if matches!(self.phase, Phase::Uncertain { .. }) {
            self.phase = Phase::Ending;
            out.push(Effect::EndAgain { slot: self.id });
        }
    }

    /// When [`tick`](Self::tick) will have something to do.
    pub(in crate::fleet::slots) fn deadline(&self) -> Option<Time> {
        match self.phase {
            Phase::Backoff { until: at } | Phase::Uncertain { retry_at: at } => Some(at),
            Phase::Exhausted { until } => until,
            Phase::Ready { .. } => self.idle_deadline(),
            Phase::Vacant
                if self.settings.demand == Demand::OnDemand && self.waiters.is_empty() =>
            {
                self.restarts.forget_at()
            }
            Phase::Vacant | Phase::Starting | Phase::Ending => None,
        }
    }

    fn idle_deadline(&self) -> Option<Time> {
        let unused = self.settings.demand == Demand::OnDemand && self.leases == 0;
        let ttl = self.settings.idle_ttl?;
        (unused && self.waiters.is_empty()).then(|| self.idle_since.saturating_add(ttl))
    }
}
