//! The outcome of a start and of an end, for a refresh that waits for it.

use std::sync::{Arc, PoisonError};

use tokio::time::Instant;

use super::error::RequiredFailure;
use super::server_manager::ServerManager;
use crate::client::error::start::{StartError, StartErrorKind};
use crate::client::event::EndResult;
use crate::fleet::engine::State;
use crate::fleet::engine::record::{Failure, Record};
use crate::fleet::outcome::{ServerOutcome, StartOutcome};
use crate::fleet::slots::effect::SlotId;
use crate::fleet::slots::slot::Phase;
use crate::terminate::error::TerminateError;
use crate::terminate::report::EndReason;

type Name = Arc<str>;

/// Lets a successor take over when it is ready, and drops it when it fails.
pub(super) fn succeed(manager: &ServerManager, name: Name, slot: SlotId) {
    let engine = Arc::clone(&manager.engine);
    let declared = Arc::clone(&manager.declared);
    tokio::spawn(async move {
        let ready = engine.wait_for(|state| settled(state, slot)).await;
        engine.change(|state, now| {
            let mut declared = declared.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(server) = declared.servers.get_mut(&name) else {
                return;
            };
            // A later refresh may have put another one in its place.
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

/// Returns whether a start has come to something.
fn settled(state: &State<Name>, id: SlotId) -> Option<Settled> {
    let Some(slot) = state.table.slot(id) else {
        return Some(Settled::Gone);
    };
    if slot.retired().is_some() {
        return Some(Settled::Gone);
    }
    match slot.phase() {
        Phase::Ready { .. } => Some(Settled::Ready),
        Phase::Backoff { .. } | Phase::Exhausted { .. } | Phase::Uncertain { .. } => {
            Some(Settled::Failed)
        }
        Phase::Vacant => {
            let key = state.table.key(id)?;
            let mut others = state.table.slots().filter(|(other, _)| *other == key);
            let stuck = others.any(|(_, other)| matches!(other.phase(), Phase::Uncertain { .. }));
            stuck.then_some(Settled::Blocked)
        }
        Phase::Starting | Phase::Ending => None,
    }
}

pub(super) async fn started(
    manager: &ServerManager,
    name: &str,
    slot: SlotId,
    record: &Record,
) -> StartOutcome {
    // Ready is what `ServerManager::server` gives: a successor has taken over by then.
    let waits = || {
        let declared = manager.lock();
        let successor = declared
            .servers
            .get(name)
            .and_then(|s| s.successor.as_ref());
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

/// Waits for the end of a process, or for the first failure to prove it.
pub(super) async fn ended(
    manager: &ServerManager,
    slot: SlotId,
    record: &Record,
    begun: Instant,
) -> Result<EndResult, TerminateError> {
    let over = |state: &mut State<Name>| match state.table.slot(slot) {
        None => Some(()),
        Some(slot) => matches!(slot.phase(), Phase::Uncertain { .. }).then_some(()),
    };
    manager.engine.wait_for(over).await;
    manager.engine.end_of(slot, record, begun)
}

pub(super) fn failure(outcome: &ServerOutcome) -> Option<RequiredFailure> {
    let (error, why) = match outcome.start.as_ref()? {
        StartOutcome::Kept | StartOutcome::Ready => return None,
        StartOutcome::Failed(error) => (Some(error.clone()), "its start failed".to_owned()),
        StartOutcome::Blocked => (None, "its predecessor is not proven gone".to_owned()),
        StartOutcome::Cancelled => (None, "its start was cancelled".to_owned()),
        StartOutcome::Died(why) => (None, why.clone()),
    };
    Some(RequiredFailure {
        server: outcome.server.to_string(),
        error,
        why,
    })
}
