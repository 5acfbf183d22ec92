//! [`Scope`]: what ends together.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::key::PoolKey;
use super::lease::Lease;
use super::options::AcquireOptions;
use crate::client::config::{ServerConfig, Sharing};
use crate::fleet::acquire_error::{AcquireError, AcquireErrorKind};

use crate::fleet::engine::record::Record;
use crate::fleet::engine::{Engine, State};
use crate::fleet::shutdown::{ServerEnd, ShutdownError, ShutdownReport};
use crate::fleet::slots::effect::SlotId;
use crate::fleet::slots::settings::{Demand, SlotSettings};
use crate::terminate::report::EndReason;
use crate::terminate::timing::after;

/// An agent, a session, a workspace: what uses servers and ends as a whole.
///
/// Clones, and every [`scope`](crate::fleet::ServerPool::scope) of the same name, are the
/// same scope.
///
/// # Drop
///
/// When the last handle is dropped the scope's servers end in order, in the
/// background, leased or not. [`end`](Self::end) does the same and waits for the
/// proof. The pool owns the servers until they are proven gone.
#[derive(Clone)]
pub struct Scope {
    inner: Arc<ScopeInner>,
}

pub(super) struct ScopeInner {
    engine: Arc<Engine<PoolKey>>,
    name: Arc<str>,
    owner: Arc<str>,
    /// Changed under the engine's lock only.
    ended: AtomicBool,
}

impl Scope {
    pub(super) fn of(inner: Arc<ScopeInner>) -> Self {
        Self { inner }
    }

    /// The scope's name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Leases a server for this scope, starting it if need be, with the default
    /// [`AcquireOptions`].
    ///
    /// Callers that ask for the same server share one start. The settings that do
    /// not make the process (idle time, restart, waits of the end) are those of the
    /// caller who asked last before it started.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] says why there is no lease: the start failed, it failed
    /// lately or too often, a limit was reached and who holds what, the scope or
    /// the pool has ended, or the time was up.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. A start that others wait for goes on, and one that nobody
    /// waits for any more becomes an idle server.
    pub async fn acquire(&self, server: &ServerConfig) -> Result<Lease, AcquireError> {
        self.acquire_with(server, &AcquireOptions::default()).await
    }

    /// Leases a server for this scope, with options.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_with(
        &self,
        server: &ServerConfig,
        options: &AcquireOptions,
    ) -> Result<Lease, AcquireError> {
        let inner = &*self.inner;
        let key = PoolKey {
            scope: Arc::clone(&inner.name),
            identity: options.identity.clone(),
            config: server.clone(),
        };
        let make = || {
            if inner.ended.load(Ordering::Relaxed) {
                return Err(AcquireErrorKind::Retired(EndReason::ScopeEnded));
            }
            let record = Record::new(Arc::clone(&inner.owner), Arc::new(server.clone()));
            Ok((slot_settings(server), record))
        };
        match inner.engine.acquire(&key, make, options.timeout).await {
            Ok(mut grant) => {
                grant.peer = grant
                    .peer
                    .clone()
                    .with_call_options(server.call_options.clone());
                Ok(Lease::new(grant))
            }
            Err(kind) => Err(AcquireError::new(server.name(), &inner.owner, kind)),
        }
    }

    /// Ends the scope: every server in it, leased or not, and every start.
    /// Handles of the same scope get no more leases.
    ///
    /// # Errors
    ///
    /// [`ShutdownError`] names the servers that are not proven gone within this
    /// time. The pool owns them, and goes on.
    ///
    /// # Cancel safety
    ///
    /// The end goes on when the future is dropped.
    pub async fn end(&self, within: Duration) -> Result<ShutdownReport, ShutdownError> {
        let begun = Instant::now();
        let inner = &*self.inner;
        let ends = inner.retire();
        let left = |state: &mut State<PoolKey>| {
            ends.iter()
                .all(|(slot, _)| !state.is_live(*slot))
                .then_some(())
        };
        let _ = timeout_at(after(begun, within), inner.engine.wait_for(left)).await;
        let ends: Vec<_> = ends
            .iter()
            .map(|(slot, record)| ServerEnd {
                server: Arc::clone(&record.server),
                owner: Arc::clone(&record.owner),
                result: inner.engine.end_of(*slot, record, begun),
            })
            .collect();
        let report = ShutdownReport {
            owner: Arc::clone(&inner.owner),
            ends,
            took: begun.elapsed(),
        };
        report.proven()
    }
}

impl ScopeInner {
    pub(super) fn new(engine: Arc<Engine<PoolKey>>, name: Arc<str>, owner: Arc<str>) -> Arc<Self> {
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

    /// Retires every slot of the scope, and returns those that were live.
    fn retire(&self) -> Vec<(SlotId, Arc<Record>)> {
        self.engine.change(|state, now| {
            self.ended.store(true, Ordering::Relaxed);
            let mine = |key: &PoolKey| key.scope == self.name;
            let slots = state.table.slots().filter(|(key, _)| mine(key));
            let ids: Vec<_> = slots.map(|(_, slot)| (slot.id(), slot.is_live())).collect();
            let mut live = Vec::new();
            for (id, is_live) in ids {
                live.extend(
                    state
                        .record(id)
                        .filter(|_| is_live)
                        .map(|record| (id, record)),
                );
                state.table.retire(id, &EndReason::ScopeEnded, now);
            }
            live
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

/// Whose the servers of a scope are, in lists and events.
pub(super) fn owner(pool: &str, scope: &str) -> Arc<str> {
    Arc::from(format!("{pool}/{scope}"))
}

/// The scope of an [`owner`]; empty for the pool itself.
pub(super) fn of_owner<'a>(pool: &str, owner: &'a str) -> &'a str {
    let scope = owner.strip_prefix(pool);
    scope
        .and_then(|scope| scope.strip_prefix('/'))
        .unwrap_or("")
}

fn slot_settings(config: &ServerConfig) -> SlotSettings {
    SlotSettings {
        demand: Demand::OnDemand,
        exclusive: config.sharing == Sharing::Exclusive,
        idle_ttl: config.idle_ttl,
        restart: config.restart.clone(),
        beside: false,
        server: Arc::from(config.name()),
        max_of_server: config.max_live,
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scope").field(&self.inner.owner).finish()
    }
}
