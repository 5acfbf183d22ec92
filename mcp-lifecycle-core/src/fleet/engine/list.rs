use std::sync::Arc;

use tokio::time::Instant;

use super::{Engine, Entry, Key};
use crate::client::LifecycleClient;
use crate::fleet::restart::Time;
use crate::fleet::slots::settings::Demand;
use crate::fleet::slots::slot::Slot;
use crate::fleet::{KeptBy, ServerRecord, ServerState};
use crate::terminate::EndReason;
use crate::terminate::callback::guarded;

impl<K: Key> Engine<K> {
    pub(crate) fn list(&self) -> Vec<ServerRecord> {
        let now = self.now();
        let listed: Vec<_> = {
            let state = self.state.lock();
            let slots = state.table.slots();
            slots
                .filter_map(|(_, slot)| {
                    let entry = state.table.entry(slot.id())?;
                    let process = entry.process.as_ref();
                    let client = process.and_then(|process| process.client());
                    Some((record(slot, entry, client.as_deref(), now), client))
                })
                .collect()
        };
        // Launcher code must not run under a lock.
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

fn record(
    slot: &Slot<Arc<LifecycleClient>>,
    entry: &Entry,
    client: Option<&LifecycleClient>,
    now: Time,
) -> ServerRecord {
    let Entry { record, process } = entry;
    let config = record.config();
    let in_flight = client.map_or(0, |client| client.in_flight());
    ServerRecord {
        server: Arc::clone(&record.server),
        owner: Arc::clone(&record.owner),
        launcher: config.kind.launcher.to_string(),
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
        age: process
            .as_ref()
            .map(|process| Instant::now().saturating_duration_since(process.begun)),
        last_use: now.saturating_sub(slot.last_used()),
        failures: slot.failures(),
        next_attempt: slot.next().map(|at| at.saturating_sub(now)),
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
    match slot.state() {
        ServerState::Ending | ServerState::Unproven => {
            KeptBy::Ending(ends.unwrap_or(EndReason::ServerExited))
        }
        _ if slot.demand() == Demand::Declared => KeptBy::Declared,
        _ if slot.leases() > 0 => KeptBy::Leases,
        _ if slot.waiting() > 0 => KeptBy::Waiters,
        _ if in_flight > 0 => KeptBy::Calls,
        ServerState::Ready => KeptBy::IdleTime,
        ServerState::Starting => KeptBy::Waiters,
        ServerState::Queued | ServerState::Backoff | ServerState::Exhausted => KeptBy::Memory,
    }
}
