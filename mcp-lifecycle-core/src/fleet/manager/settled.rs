use std::sync::Arc;

use tokio::time::Instant;

use crate::client::{EndResult, StartError, StartErrorKind};
use crate::fleet::engine::State;
use crate::fleet::engine::record::{Failure, Record};
use crate::fleet::slots::effect::SlotId;
use crate::fleet::{ServerManager, ServerState, StartOutcome};
use crate::terminate::{EndReason, TerminateError};

/// Lets a successor take over when it is ready, and drops it when it fails.
pub(super) fn succeed(manager: &ServerManager, name: Arc<str>, slot: SlotId) {
    let engine = Arc::clone(&manager.engine);
    let declared = Arc::clone(&manager.declared);
    tokio::spawn(async move {
        let ready = engine.wait_for(|state| settled(state, slot)).await;
        engine.change(|state, now| {
            let mut declared = declared.lock();
            let Some(server) = declared.get_mut(&name) else {
                return;
            };
            // A later refresh may have replaced it.
            let Some((_, config)) = server.successor.take_if(|(id, _)| *id == slot) else {
                return;
            };
            let loser = if matches!(ready, Settled::Ready) {
                server.config = config;
                std::mem::replace(&mut server.slot, slot)
            } else {
                slot
            };
            state.table.retire(loser, &EndReason::ConfigChanged, now);
        });
    });
}

enum Settled {
    Ready,
    Failed,
    Blocked,
    Gone,
}

fn settled(state: &State, id: SlotId) -> Option<Settled> {
    let Some(slot) = state.table.slot(id) else {
        return Some(Settled::Gone);
    };
    if slot.retired().is_some() {
        return Some(Settled::Gone);
    }
    match slot.state() {
        ServerState::Ready => Some(Settled::Ready),
        ServerState::Backoff | ServerState::Exhausted | ServerState::Unproven => {
            Some(Settled::Failed)
        }
        ServerState::Queued => {
            let key = &slot.entry.key;
            let mut others = state.table.slots().filter(|other| other.entry.key == *key);
            let stuck = others.any(|other| other.state() == ServerState::Unproven);
            stuck.then_some(Settled::Blocked)
        }
        ServerState::Starting | ServerState::Ending => None,
    }
}

pub(super) async fn started(
    manager: &ServerManager,
    name: &str,
    slot: SlotId,
    record: &Record,
) -> StartOutcome {
    // Ready must mean that `ServerManager::server` returns it, so the successor must have taken
    // over.
    let waits = || {
        let declared = manager.declared.lock();
        let successor = declared.get(name).and_then(|s| s.successor.as_ref());
        successor.is_some_and(|(successor, _)| *successor == slot)
    };
    let settled = manager.engine.wait_for(|state| {
        settled(state, slot).filter(|settled| !matches!(settled, Settled::Ready) || !waits())
    });
    match (settled.await, record.failure()) {
        (Settled::Ready, _) => StartOutcome::Ready,
        (Settled::Blocked, _) => StartOutcome::Blocked,
        (_, Some(Failure::Start(error))) if !is_cancelled(&error) => StartOutcome::Failed(error),
        (Settled::Gone, _) => StartOutcome::Cancelled,
        (Settled::Failed, Some(failure)) => StartOutcome::Died(failure.to_string()),
        (Settled::Failed, None) => StartOutcome::Died(format!("server `{name}` ended")),
    }
}

fn is_cancelled(error: &StartError) -> bool {
    matches!(error.kind(), StartErrorKind::Cancelled)
}

pub(super) async fn ended(
    manager: &ServerManager,
    slot: SlotId,
    record: &Record,
    begun: Instant,
) -> Result<EndResult, TerminateError> {
    let over = |state: &mut State| match state.table.slot(slot) {
        None => Some(()),
        Some(slot) => (slot.state() == ServerState::Unproven).then_some(()),
    };
    manager.engine.wait_for(over).await;
    manager.engine.end_of(slot, record, begun)
}
