//! Where the events of one manager or pool go.

use std::sync::Arc;

use super::counters::Tally;
use super::event::{ServerEvent, ServerObserver};

use super::outcome::RefreshReport;
use crate::client::event::{LifecycleEvent, LifecycleObserver};
use crate::terminate::callback::guarded;

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
        if let Some(observer) = &self.observer {
            guarded("an observer", &event.server, || observer.on_event(event));
        }
    }

    /// Traces and tells the summary of a refresh. Not to be called under a lock.
    pub(crate) fn refreshed(&self, owner: &str, report: &RefreshReport) {
        tracing::info!(owner, "{report}");
        if let Some(observer) = &self.observer {
            guarded("an observer", owner, || {
                observer.on_refreshed(owner, report)
            });
        }
    }

    /// Tells the lines of one server's standard error.
    pub(crate) fn lines(&self, owner: &Arc<str>) -> Option<Arc<dyn LifecycleObserver>> {
        let observer = Arc::clone(self.observer.as_ref()?);
        let owner = Arc::clone(owner);
        Some(Arc::new(Lines { owner, observer }))
    }
}

/// The lines of a server of a manager or pool, for their observer.
struct Lines {
    owner: Arc<str>,
    observer: Arc<dyn ServerObserver>,
}

impl LifecycleObserver for Lines {
    /// Told by the manager or pool, which knows the owner and the generation.
    fn on_event(&self, _: &str, _: &LifecycleEvent<'_>) {}

    fn on_stderr(&self, server: &str, line: &str) {
        self.observer.on_stderr(&self.owner, server, line);
    }
}
