use std::sync::Arc;

use tokio::time::Instant;

use super::{Engine, Entry};
use crate::client::LifecycleClient;
use crate::fleet::restart::Time;
use crate::fleet::slots::settings::Demand;
use crate::fleet::slots::slot::Slot;
use crate::fleet::{KeptBy, ServerRecord, ServerState};
use crate::terminate::EndReason;
use crate::terminate::callback::guarded;

impl Engine {
    pub(crate) fn list(&self) -> Vec<ServerRecord> {
        let now = self.now();
        let listed: Vec<_> = {
            let state = self.state.lock();
            let listed = |slot| (record(slot, now), slot.entry.client().cloned());
            state.table.slots().map(listed).collect()
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

fn record(slot: &Slot<Entry>, now: Time) -> ServerRecord {
    let Entry {
        record, process, ..
    } = &slot.entry;
    let client = slot.entry.client();
    let config = record.config();
    let in_flight = client.map_or(0, |client| client.in_flight());
    let ends = client.and_then(|client| {
        let state = client.state();
        let reason = state.borrow().end_reason()?.0.clone();
        Some(reason)
    });
    ServerRecord {
        server: Arc::clone(&record.server),
        owner: Arc::clone(&record.owner),
        launcher: config.kind.launcher.to_string(),
        command: config.spec().display_command().to_string(),
        state: slot.state(),
        kept_by: kept_by(slot, in_flight, ends),
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
        last_error: slot.last_error(),
    }
}

fn kept_by(slot: &Slot<Entry>, in_flight: usize, ends: Option<EndReason>) -> KeptBy {
    if let Some(reason) = slot.retired() {
        return KeptBy::Ending(reason.clone());
    }
    match slot.state() {
        ServerState::Ending | ServerState::Unproven => {
            KeptBy::Ending(ends.unwrap_or(EndReason::ServerExited))
        }
        _ if slot.settings.demand == Demand::Declared => KeptBy::Declared,
        _ if slot.leases() > 0 => KeptBy::Leases,
        _ if slot.waiting() > 0 => KeptBy::Waiters,
        _ if in_flight > 0 => KeptBy::Calls,
        ServerState::Ready => KeptBy::IdleTime,
        ServerState::Starting => KeptBy::Waiters,
        ServerState::Queued | ServerState::Backoff | ServerState::Exhausted => KeptBy::Memory,
    }
}
