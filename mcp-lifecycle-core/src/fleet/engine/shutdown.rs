//! The end of everything, under one deadline.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::deadline::fit;
use super::record::Record;
use super::{Engine, Key};
use crate::client::event::EndResult;
use crate::fleet::slots::effect::SlotId;
use crate::launch::identity::ServerIdentity;
use crate::terminate::error::{TerminateError, TerminateErrorContext};
use crate::terminate::policy::TerminationPolicy;
use crate::terminate::report::EndReason;
use crate::terminate::timing::{PROOF_RESERVE, after};

/// How everything ended.
#[derive(Clone)]
pub(crate) struct Closed {
    pub(crate) ends: Arc<Vec<Ended>>,
    pub(crate) took: Duration,
}

/// The end of one server.
pub(crate) struct Ended {
    pub(crate) record: Arc<Record>,
    pub(crate) result: Result<EndResult, TerminateError>,
}

impl<K: Key> Engine<K> {
    /// Ends everything, now and for ever. Concurrent calls share one run, with
    /// the deadline of the first; it goes on when its callers have gone.
    pub(crate) async fn close(self: &Arc<Self>, within: Duration) -> Closed {
        let mut run = self.begin_close(within);
        let done = run
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|done| done.clone());
        match done {
            Some(closed) => closed,
            // The runtime went away, and every server was killed with it.
            None => self.closed(&self.live(), Instant::now()),
        }
    }

    fn begin_close(self: &Arc<Self>, within: Duration) -> watch::Receiver<Option<Closed>> {
        let mut closing = self.closing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(run) = &*closing {
            let settled = run
                .borrow()
                .as_ref()
                .map(|closed| closed.ends.iter().all(|e| e.result.is_ok()));
            // One that could not prove everything may be asked for again.
            let joins = match settled {
                Some(proven) => proven,
                None => run.has_changed().is_ok(),
            };
            if joins {
                return run.clone();
            }
        }
        let (sender, receiver) = watch::channel(None);
        *closing = Some(receiver.clone());
        drop(closing);
        let begun = Instant::now();
        let end_by = after(begun, within);
        let live = self.live();
        // Synchronous: from here on nothing starts.
        self.change(|state, now| {
            state.end_by = Some(end_by);
            state.table.close(&EndReason::Shutdown, now);
        });
        let engine = Arc::clone(self);
        tokio::spawn(async move {
            engine.empty(end_by, within).await;
            let closed = engine.closed(&live, begun);
            sender.send_replace(Some(closed));
        });
        receiver
    }

    /// Waits until nothing is left, and kills what is left shortly before the
    /// deadline, so that its proof still fits.
    async fn empty(&self, end_by: Instant, within: Duration) {
        let reserve = (within / 4).min(PROOF_RESERVE);
        let empty = || self.wait_for(|state| state.table.is_empty().then_some(()));
        if timeout_at(end_by - reserve, empty()).await.is_err() {
            self.kill_now();
            let _ = timeout_at(end_by, empty()).await;
        }
    }

    fn live(&self) -> Vec<(SlotId, Arc<Record>)> {
        let state = self.lock();
        let live = state.table.slots().filter(|(_, slot)| slot.is_live());
        live.filter_map(|(_, slot)| {
            let record = Arc::clone(&state.entries.get(&slot.id())?.record);
            Some((slot.id(), record))
        })
        .collect()
    }

    fn closed(&self, live: &[(SlotId, Arc<Record>)], begun: Instant) -> Closed {
        let end = |(slot, record): &(SlotId, Arc<Record>)| Ended {
            record: Arc::clone(record),
            result: self.end_of(*slot, record, begun),
        };
        let mut ends: Vec<_> = live.iter().map(end).collect();
        ends.sort_by(|a, b| {
            (&a.record.owner, &a.record.server).cmp(&(&b.record.owner, &b.record.server))
        });
        Closed {
            ends: Arc::new(ends),
            took: begun.elapsed(),
        }
    }

    /// How the process of a slot ended, or that it is not proven to have.
    pub(crate) fn end_of(
        &self,
        slot: SlotId,
        record: &Record,
        begun: Instant,
    ) -> Result<EndResult, TerminateError> {
        let client = {
            let state = self.lock();
            let live = state.table.slot(slot).is_some_and(|slot| slot.is_live());
            let run = state
                .entries
                .get(&slot)
                .and_then(|entry| entry.run.as_ref());
            live.then(|| run.and_then(|run| run.client()).cloned())
        };
        match (client, record.outcome()) {
            (_, Some(Ok(report))) => Ok(EndResult::Proven(report)),
            (Some(_), Some(Err(error))) => Err(error),
            (Some(client), None) => Err(TerminateErrorContext {
                server: record.server.to_string(),
                identity: match client {
                    Some(client) => client.identity(),
                    None => ServerIdentity::Other("in launch".to_owned()),
                },
                reason: EndReason::Shutdown,
                survivors: Vec::new(),
                cause: Some(
                    "no proof before the deadline; it was killed and stays owned".to_owned(),
                ),
                phases: Vec::new(),
                took: begun.elapsed(),
            }
            .into()),
            (None, _) => Ok(EndResult::NeverLaunched),
        }
    }

    /// The waits of a server's end: its own, with time for its calls where it
    /// is replaced or removed, fitted into what time there is.
    pub(super) fn policy(
        &self,
        record: &Record,
        reason: &EndReason,
        end_by: Option<Instant>,
    ) -> TerminationPolicy {
        let mut policy = record.config().termination.clone();
        if matches!(reason, EndReason::ConfigChanged | EndReason::ScopeEnded) {
            policy.drain = policy.drain.max(self.drain);
        }
        match end_by.map(|at| at.saturating_duration_since(Instant::now())) {
            None => policy,
            Some(Duration::ZERO) => TerminationPolicy::immediate(),
            Some(rest) => fit(policy, rest),
        }
    }
}
