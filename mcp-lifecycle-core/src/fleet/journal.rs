use std::sync::Arc;

use crate::client::{ServerEvent, ServerEventKind, ServerObserver};
#[cfg(feature = "metrics")]
use crate::terminate::callback::guarded;

/// Traces and reports the events of one manager or pool.
pub(crate) struct Journal(pub(crate) Option<Arc<dyn ServerObserver>>);

impl ServerObserver for Journal {
    fn on_event(&self, event: &ServerEvent) {
        // There may be hundreds of these.
        if !matches!(event.kind, ServerEventKind::Progress(_)) {
            #[cfg(feature = "metrics")]
            guarded("the metrics recorder", &event.server, || {
                metrics::counter!(
                    "mcp_server_events_total",
                    "event" => event.kind.as_str(),
                    "owner" => event.owner.to_string(),
                    "server" => event.server.to_string(),
                )
                .increment(1);
            });
            tracing::info!(
                server = %event.server,
                owner = %event.owner,
                generation = event.generation,
                event = event.kind.as_str(),
                "{}",
                event.kind
            );
        }
        if let Some(observer) = &self.0 {
            observer.on_event(event);
        }
    }

    fn on_stderr(&self, owner: &str, server: &str, line: &str) {
        if let Some(observer) = &self.0 {
            observer.on_stderr(owner, server, line);
        }
    }
}
