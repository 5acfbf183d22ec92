use super::Slot;
use crate::fleet::ServerState;
use crate::fleet::restart::Time;
use crate::fleet::slots::effect::{Effect, Liveness, Refusal, WaiterId};

#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) id: WaiterId,
    pub(super) deadline: Time,
}

impl<G: Liveness> Slot<G> {
    /// Queues a waiter, unless it cannot be served before its deadline.
    pub(in crate::fleet::slots) fn wait(
        &mut self,
        id: WaiterId,
        deadline: Time,
    ) -> Result<(), Refusal> {
        self.refused_before(deadline)?;
        self.waiters.push_back(Waiter { id, deadline });
        Ok(())
    }

    /// Refuses a wait that cannot succeed before its deadline.
    pub(super) fn refused_before(&self, deadline: Time) -> Result<(), Refusal> {
        let failures = self.failures();
        match (&self.retired, self.state, self.next) {
            (Some(reason), ..) => Err(Refusal::Retired(reason.clone())),
            (_, ServerState::Backoff, Some(until)) if until > deadline => {
                Err(Refusal::Backoff { until, failures })
            }
            (_, ServerState::Exhausted, until) => Err(Refusal::Exhausted { until, failures }),
            (_, ServerState::Unproven, _) => Err(Refusal::Uncertain),
            _ => Ok(()),
        }
    }

    /// Removes a waiter. The start continues for others.
    pub(in crate::fleet::slots) fn cancel(&mut self, id: WaiterId, now: Time) -> bool {
        let before = self.waiters.len();
        self.waiters.retain(|waiter| waiter.id != id);
        self.idle_since = now;
        self.waiters.len() < before
    }

    pub(in crate::fleet::slots) fn refuse_all(&mut self, refusal: &Refusal, out: &mut Vec<Effect>) {
        for waiter in self.waiters.drain(..) {
            out.push(Effect::Refuse {
                waiter: waiter.id,
                refusal: refusal.clone(),
            });
        }
    }

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
