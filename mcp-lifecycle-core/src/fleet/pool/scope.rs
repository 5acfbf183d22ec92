use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::fleet::engine::key::{Key, PoolKey};
use crate::fleet::engine::record::Record;
use crate::fleet::engine::{Engine, State};
use crate::fleet::slots::effect::SlotId;
use crate::fleet::slots::settings::Demand;
use crate::fleet::{
    AcquireError, AcquireErrorKind, FleetServer, Lease, ShutdownError, ShutdownReport,
};
use crate::launch::macros::debug_fields;
use crate::terminate::EndReason;
use crate::terminate::timing::after;

/// A user of servers that ends as a whole: an agent, a session, a workspace. Clones, and every
/// [`scope`](crate::fleet::ServerPool::scope) of the same name, are the same scope.
///
/// # Drop
///
/// Dropping the last handle ends the scope's servers in order, in the background, leased or not.
#[derive(Clone)]
pub struct Scope {
    inner: Arc<ScopeInner>,
}

pub(super) struct ScopeInner {
    engine: Arc<Engine>,
    name: Arc<str>,
    owner: Arc<str>,
    /// Changed under the engine's lock only.
    ended: AtomicBool,
}

impl Scope {
    pub(super) fn of(inner: Arc<ScopeInner>) -> Self {
        Self { inner }
    }

    /// Returns the scope's name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Leases a server for this scope. Starts it if necessary. Waits for a minute at most.
    ///
    /// Callers that request the same server share one start. Settings that do not determine the
    /// process (idle time, restart, waits of the end) are those of the last request before the
    /// start.
    ///
    /// # Errors
    ///
    /// [`AcquireError`]: the start failed, the server failed recently or too often, a limit is
    /// reached (with the holders), the scope or the pool has ended, or the time is up.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. A start continues for other waiters, or becomes an idle server.
    pub async fn acquire(&self, server: impl Into<FleetServer>) -> Result<Lease, AcquireError> {
        self.acquire_within(server, Duration::from_secs(60)).await
    }

    /// Does the same as [`acquire`](Self::acquire), with this limit of the wait for capacity, a
    /// start, a due restart, or the holder of an exclusive server.
    pub async fn acquire_within(
        &self,
        server: impl Into<FleetServer>,
        limit: Duration,
    ) -> Result<Lease, AcquireError> {
        let inner = &*self.inner;
        let FleetServer { config, options } = server.into();
        let key = Key::Pooled(PoolKey {
            scope: Arc::clone(&inner.name),
            sharing: options.sharing,
            config: config.clone(),
        });
        let make = || {
            if inner.ended.load(Ordering::Relaxed) {
                return Err(AcquireErrorKind::Retired(EndReason::ScopeEnded));
            }
            let record = Record::new(Arc::clone(&inner.owner), Arc::new(config.clone()));
            Ok((options.slot(Demand::OnDemand, false), record))
        };
        match inner.engine.acquire(&key, make, limit).await {
            Ok(mut lease) => {
                lease.peer = lease.peer.clone().call_options(config.call_options.clone());
                Ok(lease)
            }
            Err(kind) => Err(AcquireError::new(config.name(), &inner.owner, kind)),
        }
    }

    /// Ends the scope: every server in it, leased or not, and every start. Its handles get no more
    /// leases. The end continues when the future is dropped.
    ///
    /// # Errors
    ///
    /// [`ShutdownError`] names the servers that are not proven gone within this time. The pool owns
    /// them and keeps trying.
    pub async fn end(&self, within: Duration) -> Result<ShutdownReport, ShutdownError> {
        let begun = Instant::now();
        let inner = &*self.inner;
        let ends = inner.retire();
        let left = |state: &mut State| {
            ends.iter()
                .all(|(slot, _)| !state.table.is_live(*slot))
                .then_some(())
        };
        let _ = timeout_at(after(begun, within), inner.engine.wait_for(left)).await;
        inner.engine.report(&inner.owner, &ends, begun).proven()
    }
}

impl ScopeInner {
    pub(super) fn new(engine: Arc<Engine>, name: Arc<str>, owner: Arc<str>) -> Arc<Self> {
        Arc::new(Self {
            engine,
            name,
            owner,
            ended: AtomicBool::new(false),
        })
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    fn retire(&self) -> Vec<(SlotId, Arc<Record>)> {
        self.engine.change(|state, now| {
            self.ended.store(true, Ordering::Relaxed);
            let slots = state.table.slots();
            let mine: Vec<_> = slots
                .filter(|slot| slot.entry.key.scope() == &*self.name)
                .map(|slot| (slot.id, Arc::clone(&slot.entry.record), slot.is_live()))
                .collect();
            for (id, ..) in &mine {
                state.table.retire(*id, &EndReason::ScopeEnded, now);
            }
            let live = mine.into_iter().filter(|(.., is_live)| *is_live);
            live.map(|(id, record, _)| (id, record)).collect()
        })
    }
}

impl Drop for ScopeInner {
    fn drop(&mut self) {
        if !self.has_ended() {
            self.retire();
        }
    }
}

pub(super) fn owner(pool: &str, scope: &str) -> Arc<str> {
    Arc::from(format!("{pool}/{scope}"))
}

debug_fields! { Scope, it { owner: &it.inner.owner } }
