//! The end of an unused connection.

use std::future::{Future, poll_fn};
#[cfg(test)]
use std::sync::Arc;
use std::sync::Weak;
use std::task::{Context, Poll};
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
        // No more commands: only ends that need an answer.
        while self.session.has_calls() && self.link.is_some() && Instant::now() < until {
            self.carry_out();
            self.timer.as_mut().reset(until.into());
            let event = poll_fn(|cx| match self.poll_event(cx) {
                Poll::Ready(Event::Abandoned) => self.poll_link(cx),
                other => other,
            });
            match event.await {
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

    /// Does the same as `poll_event`, without commands.
    fn poll_link(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        let Some(connected) = &mut self.link else {
            return Poll::Ready(Event::LinkLost(None));
        };
        match connected.link.poll_flush(cx) {
            Poll::Ready(Err(error)) => return Poll::Ready(Event::LinkLost(Some(error))),
            Poll::Ready(Ok(())) => self.dirty = false,
            Poll::Pending => {}
        }
        match self.poll_recv(cx) {
            Poll::Pending => self.timer.as_mut().poll(cx).map(|()| Event::Tick),
            received => received,
        }
    }
}
