//! Sums since the beginning, for an application's metrics.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::client::event::{ServerEvent, ServerEventKind, StartReason};
use crate::terminate::report::EndReason;

/// Sums over all servers of a manager or a pool since it was made.
///
/// `starts - ended` is the number of live servers. With the feature `metrics`
/// every event also increments `mcp_server_events_total{event, owner, server}` of
/// the `metrics` facade.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Starts begun.
    pub starts: u64,
    /// Of these, restarts after a failure.
    pub restarts: u64,
    /// Starts that became ready.
    pub ready: u64,
    /// Starts that failed.
    pub start_failures: u64,
    /// Servers that died by themselves.
    pub deaths: u64,
    /// Servers of which nothing is left.
    pub ended: u64,
    /// Ends that gave no proof; each is tried again.
    pub unproven: u64,
    /// Servers ended for having been idle.
    pub idle: u64,
    /// Servers ended to make room.
    pub evicted: u64,
    /// Leases given.
    pub leases: u64,
    /// Leases refused.
    pub refusals: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Tally {
    starts: AtomicU64,
    restarts: AtomicU64,
    ready: AtomicU64,
    start_failures: AtomicU64,
    deaths: AtomicU64,
    ended: AtomicU64,
    unproven: AtomicU64,
    idle: AtomicU64,
    evicted: AtomicU64,
    leases: AtomicU64,
    refusals: AtomicU64,
}

impl Tally {
    pub(crate) fn leased(&self) {
        self.leases.fetch_add(1, Relaxed);
    }

    pub(crate) fn refused(&self) {
        self.refusals.fetch_add(1, Relaxed);
    }

    pub(super) fn count(&self, event: &ServerEvent) {
        let one = |counter: &AtomicU64| {
            counter.fetch_add(1, Relaxed);
        };
        match &event.kind {
            ServerEventKind::Starting { why } => {
                one(&self.starts);
                if matches!(why, StartReason::Restart { .. }) {
                    one(&self.restarts);
                }
            }
            ServerEventKind::Ready { .. } => one(&self.ready),
            ServerEventKind::Failed { .. } => one(&self.start_failures),
            ServerEventKind::Ending { reason } => match reason {
                EndReason::ServerExited | EndReason::OutputClosed => one(&self.deaths),
                EndReason::Idle => one(&self.idle),
                EndReason::Evicted => one(&self.evicted),
                _ => {}
            },
            ServerEventKind::Unproven { .. } => one(&self.unproven),
            ServerEventKind::Ended { .. } => one(&self.ended),
            ServerEventKind::Progress(_)
            | ServerEventKind::Launched { .. }
            | ServerEventKind::Exited { .. }
            | ServerEventKind::Cancelled { .. } => {}
        }
        #[cfg(feature = "metrics")]
        metrics::counter!(
            "mcp_server_events_total",
            "event" => event.kind.as_str(),
            "owner" => event.owner.to_string(),
            "server" => event.server.to_string(),
        )
        .increment(1);
    }

    pub(crate) fn snapshot(&self) -> Counters {
        let get = |counter: &AtomicU64| counter.load(Relaxed);
        Counters {
            starts: get(&self.starts),
            restarts: get(&self.restarts),
            ready: get(&self.ready),
            start_failures: get(&self.start_failures),
            deaths: get(&self.deaths),
            ended: get(&self.ended),
            unproven: get(&self.unproven),
            idle: get(&self.idle),
            evicted: get(&self.evicted),
            leases: get(&self.leases),
            refusals: get(&self.refusals),
        }
    }
}
