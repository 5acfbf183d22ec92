//! What runs, whose it is, why it is alive, and what happened.
//!
//! [`ServerRecord`] is a line of `list()`, [`ServerEvent`] what an observer is
//! told, [`Counters`] the sums. They are the same for a manager and a pool.

mod counters;
mod event;
mod record;
mod table;

pub use counters::Counters;
pub(crate) use counters::Tally;
pub use event::{EndResult, ServerEvent, ServerEventKind, ServerObserver, StartReason};
pub use record::{KeptBy, ServerRecord, ServerState};
pub use table::RecordTable;

use std::sync::Arc;

use crate::manager::RefreshReport;

/// Where the events of one manager or pool go.
pub(crate) struct Journal {
    observer: Option<Arc<dyn ServerObserver>>,
    tally: Tally,
}

impl Journal {
    pub(crate) fn new(observer: Option<Arc<dyn ServerObserver>>) -> Self {
        Self {
            observer,
            tally: Tally::default(),
        }
    }

    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Counts, traces and tells. Not to be called under a lock.
    pub(crate) fn record(&self, event: &ServerEvent) {
        self.tally.count(event);
        tracing::info!(
            server = %event.server,
            owner = %event.owner,
            generation = event.generation,
            event = event.kind.as_str(),
            "{}",
            event.kind
        );
        if let Some(observer) = &self.observer {
            observer.on_event(event);
        }
    }

    /// Traces and tells the summary of a refresh. Not to be called under a lock.
    pub(crate) fn refreshed(&self, owner: &str, report: &RefreshReport) {
        tracing::info!(owner, "{report}");
        if let Some(observer) = &self.observer {
            observer.on_refreshed(owner, report);
        }
    }
}
