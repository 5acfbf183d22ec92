//! The journal of one manager or pool.

use std::sync::Arc;

use super::counters::Tally;
use crate::client::event::{Observed, ServerEvent, ServerEventKind, ServerObserver};
use crate::terminate::callback::guarded;

/// Where the events of one manager or pool go: they are counted, traced and told.
pub(crate) struct Journal {
    observer: Option<Arc<dyn ServerObserver>>,
    tally: Tally,
}

impl Journal {
    pub(crate) fn new(observer: Option<Arc<dyn ServerObserver>>) -> Arc<Self> {
        let tally = Tally::default();
        Arc::new(Self { observer, tally })
    }

    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Counts, traces and tells. Not to be called under a lock.
    pub(crate) fn record(&self, event: &ServerEvent) {
        guarded("the metrics recorder", &event.server, || {
            self.tally.count(event);
        });
        tracing::info!(
            server = %event.server,
            owner = %event.owner,
            generation = event.generation,
            event = event.kind.as_str(),
            "{}",
            event.kind
        );
        self.tell(event);
    }

    fn tell(&self, event: &ServerEvent) {
        if let Some(observer) = &self.observer {
            guarded("an observer", &event.server, || observer.on_event(event));
        }
    }

    /// A process of one of the servers, as its client observes it.
    pub(crate) fn observed(
        self: &Arc<Self>,
        server: &Arc<str>,
        owner: &Arc<str>,
        generation: u64,
    ) -> Observed {
        Observed {
            server: Arc::clone(server),
            owner: Arc::clone(owner),
            generation,
            observer: Some(Arc::new(OfClient(Arc::clone(self)))),
        }
    }
}

/// Observer of the events that only the client of a server sees. The others are told by the manager or pool, which
/// decides on starts and ends.
struct OfClient(Arc<Journal>);

impl ServerObserver for OfClient {
    fn on_event(&self, event: &ServerEvent) {
        use ServerEventKind::{Exited, Launched, Progress};
        match event.kind {
            // There may be hundreds.
            Progress(_) => self.0.tell(event),
            Launched { .. } | Exited { .. } => self.0.record(event),
            _ => {}
        }
    }

    fn on_stderr(&self, owner: &str, server: &str, line: &str) {
        if let Some(observer) = &self.0.observer {
            observer.on_stderr(owner, server, line);
        }
    }
}
