use std::future::poll_fn;
#[cfg(test)]
use std::sync::Arc;
use std::sync::Weak;
use std::time::{Duration, Instant};

use super::{Driver, Event};
use crate::ExecutorError;

/// Time limit of the farewell.
const FAREWELL: Duration = Duration::from_secs(2);

impl Driver {
    /// Ends abandoned processes, tells the peer, and closes the link, once neither the client nor a
    /// process is in use.
    pub(super) async fn farewell(mut self) {
        let until = Instant::now() + FAREWELL;
        self.session.end();
        self.leaving = true;
        while self.session.has_calls() && self.link.is_some() && Instant::now() < until {
            self.carry_out();
            self.timer.as_mut().reset(until.into());
            match poll_fn(|cx| self.poll_event(cx)).await {
                Event::Frame(incoming) => self.incoming(Instant::now(), incoming),
                _ => break,
            }
        }
        self.carry_out();
        if let Some(mut connected) = self.link.take() {
            let flush = poll_fn(|cx| connected.link.poll_flush(cx));
            let _ = tokio::time::timeout_at(until.into(), flush).await;
            connected.close().await;
        }
    }

    /// Fails all processes for good.
    pub(in crate::client) fn fail_all(self, reason: &str) {
        let reason = reason.to_owned();
        for remote in self.processes.values().filter_map(Weak::upgrade) {
            let reason = reason.clone();
            remote.on_failure(ExecutorError::Lost { reason });
        }
    }

    /// Follows a process, as a start does.
    #[cfg(test)]
    pub(in crate::client) fn follow(&mut self, remote: &Arc<super::Remote>) {
        let id = remote.id().to_owned();
        self.processes.insert(id, Arc::downgrade(remote));
    }
}
