//! The engine's account of what runs.

use std::sync::Arc;

use tokio::time::Instant;

use super::{Engine, Entry, Key};
use crate::client::lifecycle_client::LifecycleClient;
use crate::fleet::inventory::record::{KeptBy, ServerRecord};
use crate::fleet::restart::Time;
use crate::fleet::slots::settings::Demand;
use crate::fleet::slots::slot::{Phase, Slot};
use crate::terminate::callback::guarded;
use crate::terminate::report::EndReason;

impl<K: Key> Engine<K> {
    /// Every server there is, oldest use first.
    pub(crate) fn list(&self) -> Vec<ServerRecord> {
        let now = self.now();
        let listed: Vec<_> = {
            let state = self.lock();
            let slots = state.table.slots();
            slots
                .filter_map(|(_, slot)| {
                    let entry = state.entries.get(&slot.id())?;
                    let client = entry.run.as_ref().and_then(|run| run.client()).cloned();
                    Some((record(slot, entry, now), client))
                })
                .collect()
        };
        // A launcher's own code runs under no lock.
        let identify = |(record, client): (ServerRecord, Option<Arc<LifecycleClient>>)| {
            let identity = client
                .and_then(|client| guarded("the launcher", &record.server, || client.identity()));
            ServerRecord { identity, ..record }
        };
        let mut records: Vec<_> = listed.into_iter().map(identify).collect();
        records.sort_by(|a, b| (&a.owner, &a.server).cmp(&(&b.owner, &b.server)));
        records
    }
}

fn record(slot: &Slot<Arc<LifecycleClient>>, entry: &Entry, now: Time) -> ServerRecord {
    let Entry { record, run } = entry;
    let config = record.config();
    let client = run
        .as_ref()
        .and_then(crate::fleet::engine::process::Run::client);
    let in_flight = client.map_or(0, |client| client.in_flight());
    let next = match *slot.phase() {
        Phase::Backoff { until: at } | Phase::Uncertain { retry_at: at } => Some(at),
        Phase::Exhausted { until } => until,
        _ => None,
    };
    ServerRecord {
        server: Arc::clone(&record.server),
        owner: Arc::clone(&record.owner),
        launcher: config.launcher_name.to_string(),
        command: config.spec().display_command().to_string(),
        state: slot.state(),
        kept_by: kept_by(
            slot,
            in_flight,
            client.and_then(|client| {
                let state = client.state();
                state
                    .borrow()
                    .end_reason()
                    .map(|(reason, _)| reason.clone())
            }),
        ),
        identity: None,
        generation: slot.generation(),
        leases: slot.leases(),
        waiting: slot.waiting(),
        in_flight,
        age: run
            .as_ref()
            .map(|run| Instant::now().saturating_duration_since(run.begun)),
        last_use: now.saturating_sub(slot.last_used()),
        failures: slot.failures(),
        next_attempt: next.map(|at| at.saturating_sub(now)),
        last_error: record.failure().map(|failure| failure.to_string()),
    }
}

fn kept_by<G: crate::fleet::slots::effect::Liveness>(
    slot: &Slot<G>,
    in_flight: usize,
    ends: Option<EndReason>,
) -> KeptBy {
    if let Some(reason) = slot.retired() {
        return KeptBy::Ending(reason.clone());
    }
    match slot.phase() {
        Phase::Ending | Phase::Uncertain { .. } => {
            KeptBy::Ending(ends.unwrap_or(EndReason::ServerExited))
        }
        _ if slot.demand() == Demand::Declared => KeptBy::Declared,
        _ if slot.leases() > 0 => KeptBy::Leases,
        _ if slot.waiting() > 0 => KeptBy::Waiters,
        _ if in_flight > 0 => KeptBy::Calls,
        Phase::Ready { .. } => KeptBy::IdleTime,
        Phase::Starting => KeptBy::Waiters,
        Phase::Vacant | Phase::Backoff { .. } | Phase::Exhausted { .. } => KeptBy::Memory,
    }
}
