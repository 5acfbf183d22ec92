//! Leases: requested, held and returned.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::record::{Failure, Record};
use super::{Engine, Key, State};
use crate::client::LifecyclePeer;
use crate::fleet::AcquireErrorKind;
use crate::fleet::restart::Time;
use crate::fleet::slots::effect::{Generation, Refusal, SlotId, WaiterId};
use crate::fleet::slots::settings::SlotSettings;
use crate::fleet::slots::table::Acquired;
use crate::terminate::timing::after;

/// A lease of one process. Dropping it returns it.
pub(crate) struct Grant<K: Key> {
    engine: Arc<Engine<K>>,
    slot: SlotId,
    pub(crate) generation: Generation,
    returned: bool,
    pub(crate) peer: LifecyclePeer,
}

pub(super) struct Answer<K: Key> {
    pub(super) record: Arc<Record>,
    pub(super) sender: oneshot::Sender<Result<Grant<K>, AcquireErrorKind>>,
}

impl<K: Key> Engine<K> {
    /// Leases a process for `key`, and creates its slot if there is none.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        key: &K,
        make: impl FnOnce() -> Result<(SlotSettings, Arc<Record>), AcquireErrorKind>,
        timeout: Duration,
    ) -> Result<Grant<K>, AcquireErrorKind> {
        match self.lease_now(key) {
            Some(grant) => Ok(grant),
            None => self.wait_for_lease(key, make, timeout).await,
        }
    }

    /// Leases a ready server: a lookup, a liveness check, a counter.
    fn lease_now(self: &Arc<Self>, key: &K) -> Option<Grant<K>> {
        let mut state = self.state.lock();
        let slot = state.table.find(key)?;
        let generation = state.table.lease(slot, self.now())?;
        self.grant(&state, slot, generation)
    }

    async fn wait_for_lease(
        self: &Arc<Self>,
        key: &K,
        make: impl FnOnce() -> Result<(SlotSettings, Arc<Record>), AcquireErrorKind>,
        timeout: Duration,
    ) -> Result<Grant<K>, AcquireErrorKind> {
        let deadline = after(Instant::now(), timeout);
        let until = self.at(deadline);
        let (sender, receiver) = oneshot::channel();
        let asked = self.change(|state, now| {
            let slot = match state.table.find(key) {
                Some(slot) if state.is_live(slot) => slot,
                Some(slot) => {
                    // The next start uses the last request's settings: an equal launcher may have a
                    // better connection.
                    let (settings, record) = make()?;
                    state.configure(slot, settings, record.config());
                    slot
                }
                None => {
                    let (settings, record) = make()?;
                    state.insert(key.clone(), settings, record, now)
                }
            };
            let Some(record) = state.record(slot) else {
                return Err(AcquireErrorKind::Closed);
            };
            match state.table.acquire(slot, until, now) {
                Acquired::Granted(generation) => Ok(Err(self.grant(state, slot, generation))),
                Acquired::Refused(refusal) => Err(self.refused(state, &record, refusal, now)),
                Acquired::Waiting(waiter) => {
                    state.waiters.insert(waiter, Answer { record, sender });
                    Ok(Ok((slot, waiter)))
                }
            }
        })?;
        let (slot, waiter) = match asked {
            Err(grant) => return grant.ok_or(AcquireErrorKind::Closed),
            Ok(waiting) => waiting,
        };
        let _waiting = Waiting {
            engine: self,
            slot,
            waiter,
        };
        match timeout_at(deadline, receiver).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(AcquireErrorKind::Closed),
            Err(_) => Err(AcquireErrorKind::TimedOut {
                timeout,
                holder: Self::holder(&self.state.lock(), slot),
                last: None,
            }),
        }
    }

    pub(super) fn grant(
        self: &Arc<Self>,
        state: &State<K>,
        slot: SlotId,
        generation: Generation,
    ) -> Option<Grant<K>> {
        let peer = state.table.slot(slot)?.gauge()?.peer().clone();
        Some(Grant {
            engine: Arc::clone(self),
            slot,
            generation,
            returned: false,
            peer,
        })
    }

    pub(super) fn refused(
        &self,
        state: &State<K>,
        record: &Record,
        refusal: Refusal,
        now: Time,
    ) -> AcquireErrorKind {
        let wait = |until: Time| until.saturating_sub(now);
        let text = |last: Option<Failure>| last.map(|failure| failure.to_string());
        match refusal {
            Refusal::Closed => AcquireErrorKind::Closed,
            Refusal::Retired(reason) => AcquireErrorKind::Retired(reason),
            Refusal::StartFailed => match record.failure() {
                Some(Failure::Start(error)) => AcquireErrorKind::Start(error),
                other => AcquireErrorKind::Failed(
                    text(other).unwrap_or_else(|| "its start failed".to_owned()),
                ),
            },
            Refusal::Backoff { until, failures } => AcquireErrorKind::Backoff {
                retry_in: wait(until),
                failures,
                last: text(record.failure()),
            },
            Refusal::Exhausted { until, failures } => AcquireErrorKind::Exhausted {
                retry_in: until.map(wait),
                failures,
                last: text(record.failure()),
            },
            Refusal::Uncertain => AcquireErrorKind::Unproven(text(record.failure())),
            Refusal::Capacity {
                limit,
                of_server,
                holders,
            } => {
                let name = |slot: SlotId| Self::holder(state, slot);
                let holders = holders.into_iter().filter_map(name).collect();
                AcquireErrorKind::Capacity {
                    limit,
                    of_server,
                    holders,
                }
            }
        }
    }

    /// Formats `server of owner (2 leases)`.
    fn holder(state: &State<K>, slot: SlotId) -> Option<String> {
        let record = &state.table.entry(slot)?.record;
        let slot = state.table.slot(slot)?;
        let doing = match slot.leases() {
            0 => slot.state().to_string(),
            1 => "1 lease".to_owned(),
            leases => format!("{leases} leases"),
        };
        Some(format!("{} of {} ({doing})", record.server, record.owner))
    }
}

impl<K: Key> Drop for Grant<K> {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl<K: Key> Grant<K> {
    pub(crate) fn give_back(&mut self) {
        if std::mem::replace(&mut self.returned, true) {
            return;
        }
        let engine = &self.engine;
        let now = engine.now();
        let follows = {
            let mut state = engine.state.lock();
            if let Some(at) = state.table.release(self.slot, self.generation, now) {
                engine.advance_timer(&mut state, at);
            }
            state.table.has_effects()
        };
        if follows {
            engine.change(|_, _| ());
        }
    }
}

/// A caller that waits for a lease. Dropping it cancels the wait.
struct Waiting<'a, K: Key> {
    engine: &'a Arc<Engine<K>>,
    slot: SlotId,
    waiter: WaiterId,
}

impl<K: Key> Drop for Waiting<'_, K> {
    fn drop(&mut self) {
        let waits = self.engine.state.lock().waiters.contains_key(&self.waiter);
        if waits {
            let gone = self.engine.change(|state, now| {
                state.table.cancel(self.slot, self.waiter, now);
                state.waiters.remove(&self.waiter)
            });
            drop(gone);
        }
    }
}
