//! Those who wait for a lease.

use super::{Phase, Slot};
use crate::fleet::restart::Time;
use crate::fleet::slots::effect::{Effect, Liveness, Refusal, WaiterId};

/// Somebody who waits.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) id: WaiterId,
    /// When it will have given up.
    pub(super) deadline: Time,
}

impl<G: Liveness> Slot<G> {
    /// Queues somebody for the next lease, unless it cannot be served before its deadline.
    pub(in crate::fleet::slots) fn wait(
        &mut self,
        id: WaiterId,
        deadline: Time,
    ) -> Result<(), Refusal> {
        self.refused_before(deadline)?;
        self.waiters.push_back(Waiter { id, deadline });
        Ok(())
    }

    /// Returns whether nothing will come of waiting until then.
    pub(super) fn refused_before(&self, deadline: Time) -> Result<(), Refusal> {
        let failures = self.failures();
        match (&self.retired, &self.phase) {
            (Some(reason), _) => Err(Refusal::Retired(reason.clone())),
            (_, &Phase::Backoff { until }) if until > deadline => {
                Err(Refusal::Backoff { until, failures })
            }
            (_, &Phase::Exhausted { until }) => Err(Refusal::Exhausted { until, failures }),
            (_, Phase::Uncertain { .. }) => Err(Refusal::Uncertain),
            _ => Ok(()),
        }
    }

    /// Removes a waiter. The start goes on, for the others or for the next.
    pub(in crate::fleet::slots) fn cancel(&mut self, id: WaiterId, now: Time) -> bool {
        let before = self.waiters.len();
        self.waiters.retain(|waiter| waiter.id != id);
        self.idle_since = now;
        self.waiters.len() < before
    }

    /// Nobody gets a lease any more.
    pub(in crate::fleet::slots) fn refuse_all(&mut self, refusal: &Refusal, out: &mut Vec<Effect>) {
        for waiter in self.waiters.drain(..) {
            out.push(Effect::Refuse {
                waiter: waiter.id,
                refusal: refusal.clone(),
            });
        }
    }

    /// Leases to those who wait, as far as it goes.
    pub(super) fn grant(&mut self, now: Time, out: &mut Vec<Effect>) {
        while !self.waiters.is_empty() {
            let Some(generation) = self.lease(now) else {
                return;
            };
            if let Some(Waiter { id, .. }) = self.waiters.pop_front() {
                out.push(Effect::Grant {
                    waiter: id,
                    slot: self.id,
                    generation,
                });
            }
        }
    }
}
