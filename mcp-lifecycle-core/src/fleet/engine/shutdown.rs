use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::Engine;
use super::record::Record;
use crate::client::EndResult;
use crate::fleet::slots::effect::SlotId;
use crate::fleet::{ServerEnd, ShutdownReport};
use crate::launch::ServerIdentity;
use crate::terminate::timing::{PROOF_RESERVE, after};
use crate::terminate::{EndReason, TerminateError, TerminateErrorContext, TerminationPolicy};

impl Engine {
    /// Ends all servers and refuses new ones. Concurrent calls share one run with the first
    /// deadline; it continues without its callers.
    pub(crate) async fn close(self: &Arc<Self>, within: Duration) -> ShutdownReport {
        let mut run = self.begin_close(within);
        let done = run.wait_for(Option::is_some).await.ok();
        match done.and_then(|done| done.clone()) {
            Some(report) => report,
            // The runtime ended, and every server was killed with it.
            None => self.report(&self.owner, &self.live(), Instant::now()),
        }
    }

    fn begin_close(self: &Arc<Self>, within: Duration) -> watch::Receiver<Option<ShutdownReport>> {
        let mut closing = self.closing.lock();
        if let Some(run) = &*closing {
            // A shutdown that left something unproven may be repeated.
            let joins = match &*run.borrow() {
                Some(report) => report.is_proven(),
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
            let report = engine.report(&engine.owner, &live, begun);
            sender.send_replace(Some(report));
        });
        receiver
    }

    /// Kills what is left shortly before the deadline, so that its proof still fits.
    async fn empty(&self, end_by: Instant, within: Duration) {
        let reserve = (within / 4).min(PROOF_RESERVE);
        let empty = || self.wait_for(|state| state.table.is_empty().then_some(()));
        if timeout_at(end_by - reserve, empty()).await.is_err() {
            self.kill_now();
            let _ = timeout_at(end_by, empty()).await;
        }
    }

    fn live(&self) -> Vec<(SlotId, Arc<Record>)> {
        let state = self.state.lock();
        let live = state.table.slots().filter(|slot| slot.is_live());
        live.map(|slot| (slot.id, Arc::clone(&slot.entry.record)))
            .collect()
    }

    pub(crate) fn report(
        &self,
        owner: &Arc<str>,
        slots: &[(SlotId, Arc<Record>)],
        begun: Instant,
    ) -> ShutdownReport {
        let end = |(slot, record): &(SlotId, Arc<Record>)| ServerEnd {
            server: Arc::clone(&record.server),
            owner: Arc::clone(&record.owner),
            result: self.end_of(*slot, record, begun),
        };
        let mut ends: Vec<_> = slots.iter().map(end).collect();
        ends.sort_by(|a, b| (&a.owner, &a.server).cmp(&(&b.owner, &b.server)));
        ShutdownReport {
            owner: Arc::clone(owner),
            ends,
            took: begun.elapsed(),
        }
    }

    pub(crate) fn end_of(
        &self,
        slot: SlotId,
        record: &Record,
        begun: Instant,
    ) -> Result<EndResult, TerminateError> {
        let client = {
            let state = self.state.lock();
            let live = state.table.slot(slot).filter(|slot| slot.is_live());
            live.map(|slot| slot.entry.client().cloned())
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

    pub(super) fn policy(
        &self,
        record: &Record,
        reason: &EndReason,
        end_by: Option<Instant>,
    ) -> TerminationPolicy {
        let mut policy = record.config().termination.clone();
        use EndReason::{ConfigChanged, ScopeEnded, Undeclared};
        if matches!(reason, ConfigChanged | Undeclared | ScopeEnded) {
            policy.drain = policy.drain.max(self.drain);
        }
        match end_by.map(|at| at.saturating_duration_since(Instant::now())) {
            None => policy,
            Some(Duration::ZERO) => TerminationPolicy::immediate(),
            Some(rest) => fit(policy, rest),
        }
    }
}

/// Shortens every wait proportionally, so that the longest time fits `limit`. Each counts for at
/// most `limit`: an endless grace leaves time for the others.
fn fit(policy: TerminationPolicy, limit: Duration) -> TerminationPolicy {
    let longest = policy.longest();
    if longest <= limit {
        return policy;
    }
    let mut fitted = policy;
    // The proof is the purpose of the rest: it keeps up to a third.
    fitted.kill_confirmation = fitted.kill_confirmation.min(limit / 3);
    let rest = (limit - fitted.kill_confirmation).as_secs_f64();
    let graces = [
        &mut fitted.drain,
        &mut fitted.flush,
        &mut fitted.eof_grace,
        &mut fitted.straggler_grace,
        &mut fitted.term_grace,
        &mut fitted.report_limit,
    ];
    let sum: f64 = graces
        .iter()
        .map(|wait| limit.min(**wait).as_secs_f64())
        .sum();
    let share = if sum > 0.0 { rest / sum } else { 0.0 };
    for wait in graces {
        *wait = limit.min(*wait).mul_f64(share);
    }
    fitted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_shortened_only_as_far_as_needed() {
        let policy = TerminationPolicy::new().drain(Duration::from_secs(10));
        assert_eq!(fit(policy.clone(), Duration::from_secs(60)), policy);
        let limit = Duration::from_secs(3);
        let fitted = fit(policy, limit);
        assert!(
            fitted.longest() <= limit + Duration::from_micros(1),
            "{fitted:?}"
        );
        assert_eq!(fitted.kill_confirmation, Duration::from_secs(1));
        assert!(fitted.drain > fitted.eof_grace);
        let mut endless = TerminationPolicy::new().drain(Duration::MAX);
        endless.eof_grace = Duration::MAX;
        let fitted = fit(endless, limit);
        assert!(fitted.longest() <= limit + Duration::from_micros(1));
        assert!(fitted.eof_grace > Duration::from_millis(500), "{fitted:?}");
        assert!(
            fitted.report_limit > Duration::from_millis(100),
            "{fitted:?}"
        );
        let none = fit(TerminationPolicy::immediate(), Duration::ZERO);
        assert_eq!(none.longest(), Duration::ZERO);
    }
}
