//! An observer that writes everything down.

use std::sync::{Arc, Mutex};

use mcp_lifecycle_core::client::{ServerEvent, ServerEventKind};

/// All events so far, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<ServerEvent>>>);

impl Log {
    pub(crate) fn observer(&self) -> impl Fn(&ServerEvent) + Send + Sync + 'static {
        let log = Arc::clone(&self.0);
        move |event| log.lock().unwrap().push(event.clone())
    }

    /// `server kind` of every event that the owner decides on, in order.
    pub(crate) fn lines(&self) -> Vec<String> {
        use ServerEventKind::{Exited, Launched, Progress};
        let log = self.0.lock().unwrap();
        log.iter()
            .filter(|event| !matches!(event.kind, Progress(_) | Launched { .. } | Exited { .. }))
            .map(|event| format!("{} {}", event.server, event.kind.as_str()))
            .collect()
    }

    /// Every start has its one end.
    pub(crate) fn assert_balanced(&self) {
        let mut open = Vec::new();
        for event in &*self.0.lock().unwrap() {
            let id = (event.server.clone(), event.owner.clone(), event.generation);
            match event.kind {
                ServerEventKind::Starting { .. } => open.push(id),
                ServerEventKind::Ended { .. } => {
                    let at = open.iter().position(|started| *started == id);
                    open.swap_remove(at.expect("ended without a start"));
                }
                _ => {}
            }
        }
        assert!(open.is_empty(), "started and never ended: {open:?}");
    }
}
