use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::client::LifecyclePeer;
use crate::fleet::AcquireErrorKind;
use crate::fleet::engine::key::Key;
use crate::fleet::engine::record::Record;
use crate::fleet::engine::{Engine, Entry};
use crate::fleet::slots::effect::{Generation, SlotId, WaiterId};
use crate::fleet::slots::settings::SlotSettings;
use crate::fleet::slots::slot::Slot;
use crate::launch::macros::debug_fields;
use crate::terminate::timing::after;

/// The right to use a server for a while. Dereferences to its [`LifecyclePeer`] for calls, of which a
/// clone keeps nothing alive. A call in flight stops the idle clock, even after the release.
///
/// # Drop
///
/// Dropping the lease returns it. The server lives on for its idle time.
#[must_use = "dropping the lease returns it"]
pub struct Lease {
    engine: Arc<Engine>,
    slot: SlotId,
    generation: Generation,
    returned: bool,
    pub(super) peer: LifecyclePeer,
}

impl Lease {
    pub(crate) fn new(
        engine: &Arc<Engine>,
        slot: &Slot<Entry>,
        generation: Generation,
    ) -> Option<Self> {
        Some(Self {
            engine: Arc::clone(engine),
            slot: slot.id,
            generation,
            returned: false,
            peer: slot.entry.client()?.peer().clone(),
        })
    }

    /// Returns the lease. Repeated calls have no effect.
    pub fn release(&mut self) {
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

    /// Returns the number of this process among those of its server, from 1.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the server's calls, for tasks that use it without holding it.
    pub fn peer(&self) -> &LifecyclePeer {
        &self.peer
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.release();
    }
}

impl Deref for Lease {
    type Target = LifecyclePeer;

    fn deref(&self) -> &LifecyclePeer {
        &self.peer
    }
}

debug_fields!(
    Lease,
    it {
        server: &it.server(),
        generation: &it.generation()
    }
);

impl Engine {
    pub(super) async fn acquire(
        self: &Arc<Self>,
        key: &Key,
        make: impl FnOnce() -> Result<(SlotSettings, Arc<Record>), AcquireErrorKind>,
        timeout: Duration,
    ) -> Result<Lease, AcquireErrorKind> {
        match self.lease_now(key) {
            Some(lease) => Ok(lease),
            None => self.wait_for_lease(key, make, timeout).await,
        }
    }

    /// Leases a ready server: a lookup, a liveness check, a counter.
    fn lease_now(self: &Arc<Self>, key: &Key) -> Option<Lease> {
        let mut state = self.state.lock();
        let slot = state.table.find(key)?;
        let generation = state.table.lease(slot, self.now())?;
        Lease::new(self, state.table.slot(slot)?, generation)
    }

    async fn wait_for_lease(
        self: &Arc<Self>,
        key: &Key,
        make: impl FnOnce() -> Result<(SlotSettings, Arc<Record>), AcquireErrorKind>,
        timeout: Duration,
    ) -> Result<Lease, AcquireErrorKind> {
        let deadline = after(Instant::now(), timeout);
        let until = self.at(deadline);
        let (sender, receiver) = oneshot::channel();
        let waiting = self.change(|state, now| {
            let slot = match state.table.find(key) {
                Some(slot) if state.table.is_live(slot) => slot,
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
            let waiter = state.table.acquire(slot, until, now);
            state.waiters.insert(waiter, sender);
            Ok(Waiting {
                engine: self,
                slot,
                waiter,
            })
        })?;
        match timeout_at(deadline, receiver).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(AcquireErrorKind::Closed),
            Err(_) => Err(AcquireErrorKind::TimedOut {
                timeout,
                holder: self.state.lock().table.slot(waiting.slot).map(Slot::holder),
                last: None,
            }),
        }
    }
}

/// A caller that waits for a lease. Dropping it cancels the wait.
struct Waiting<'a> {
    engine: &'a Arc<Engine>,
    slot: SlotId,
    waiter: WaiterId,
}

impl Drop for Waiting<'_> {
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
