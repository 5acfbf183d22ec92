use super::Slot;
use crate::fleet::engine::record::Failure;
use crate::fleet::restart::Time;
use crate::fleet::slots::effect::{Effect, Entry, WaiterId};
use crate::fleet::{AcquireErrorKind, ServerState};

#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) id: WaiterId,
    pub(super) deadline: Time,
}

impl<E: Entry> Slot<E> {
    /// Queues a waiter, unless it cannot be served before its deadline, and leases what is ready. An
    /// unproven end was [retried](Self::end_again) before.
    pub(in crate::fleet::slots) fn acquire(
        &mut self,
        waiter: WaiterId,
        deadline: Time,
        now: Time,
        out: &mut Vec<Effect>,
    ) {
        if let Err(refusal) = self.refused_before(deadline, now) {
            return out.push(Effect::Refuse { waiter, refusal });
        }
        let id = waiter;
        self.waiters.push_back(Waiter { id, deadline });
        self.grant(now, out);
    }

    pub(super) fn refused_before(&self, deadline: Time, now: Time) -> Result<(), AcquireErrorKind> {
        let failures = self.failures();
        let wait = |until: Time| until.saturating_sub(now);
        Err(match (&self.retired, self.state, self.next) {
            (Some(reason), ..) => AcquireErrorKind::Retired(reason.clone()),
            (_, ServerState::Backoff, Some(until)) if until > deadline => {
                AcquireErrorKind::Backoff {
                    retry_in: wait(until),
                    failures,
                    last: self.last_error(),
                }
            }
            (_, ServerState::Exhausted, until) => AcquireErrorKind::Exhausted {
                retry_in: until.map(wait),
                failures,
                last: self.last_error(),
            },
            _ => return Ok(()),
        })
    }

    pub(super) fn start_failed(&self) -> AcquireErrorKind {
        match self.entry.failure() {
            Some(Failure::Start(error)) => AcquireErrorKind::Start(error),
            Some(other) => AcquireErrorKind::Failed(other.to_string()),
            None => AcquireErrorKind::Failed("its start failed".to_owned()),
        }
    }

    pub(crate) fn last_error(&self) -> Option<String> {
        self.entry.failure().map(|failure| failure.to_string())
    }

    pub(crate) fn holder(&self) -> String {
        let doing = match self.leases {
            0 => self.state.to_string(),
            1 => "1 lease".to_owned(),
            leases => format!("{leases} leases"),
        };
        let (server, owner) = (self.entry.server(), self.entry.owner());
        format!("{server} of {owner} ({doing})")
    }

    pub(in crate::fleet::slots) fn cancel(&mut self, id: WaiterId, now: Time) -> bool {
        let before = self.waiters.len();
        self.waiters.retain(|waiter| waiter.id != id);
        self.idle_since = now;
        self.waiters.len() < before
    }

    pub(in crate::fleet::slots) fn refuse_all(
        &mut self,
        refusal: &AcquireErrorKind,
        out: &mut Vec<Effect>,
    ) {
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
