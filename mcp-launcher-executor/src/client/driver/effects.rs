use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::super::connect::connect;
use super::super::process::Remote;
use super::super::session::Effect;
use super::{Driver, Event};
use crate::ExecutorError;

const FAREWELL: Duration = Duration::from_secs(2);

impl Driver {
    pub(super) fn carry_out(&mut self) {
        while let Some(effect) = self.session.next_effect() {
            match effect {
                Effect::Connect => {
                    self.connecting = Some(Box::pin(connect(self.config.clone())));
                }
                Effect::Disconnect => self.close_link(),
                Effect::Send(frame) => {
                    self.dirty = true;
                    // A link that fails here fails in the next poll as well.
                    if let Some(connected) = &mut self.link {
                        let _ = connected.link.send(frame);
                    }
                }
                Effect::Ping => {
                    self.dirty = true;
                    let pinged = self.link.as_mut().is_some_and(|c| c.link.ping());
                    if !pinged {
                        self.session.no_ping(Instant::now());
                    }
                }
                Effect::Ready(result) => {
                    if let Some(ready) = self.ready.take() {
                        let _ = ready.send(Ok(*result));
                    }
                }
                Effect::Answered(token, outcome) => {
                    if let Some(reply) = self.replies.remove(&token) {
                        let _ = reply.send(outcome);
                    }
                }
                Effect::Written(id, outcome) => {
                    if let Some(remote) = self.process(&id) {
                        remote.on_written(outcome);
                    }
                }
                Effect::Event(id, event) => {
                    if let Some(remote) = self.process(&id) {
                        remote.on_event(event);
                    }
                }
                Effect::Failed(id, error) => {
                    if let Some(remote) = self.process(&id) {
                        remote.on_failure(error);
                    }
                }
                Effect::Dead(error) => {
                    let _ = self.dead.set((Instant::now(), error.clone()));
                    if let Some(ready) = self.ready.take() {
                        let _ = ready.send(Err(error));
                    }
                }
            }
        }
    }

    fn process(&self, id: &str) -> Option<Arc<Remote>> {
        self.processes.get(id).and_then(Weak::upgrade)
    }

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

    pub(in crate::client) fn fail_all(self, reason: &str) {
        for remote in self.processes.values().filter_map(Weak::upgrade) {
            remote.on_failure(ExecutorError::lost(reason));
        }
    }

    /// Follows a process, as a start does.
    #[cfg(test)]
    pub(in crate::client) fn follow(&mut self, remote: &Arc<super::Remote>) {
        let id = remote.id.clone();
        self.processes.insert(id, Arc::downgrade(remote));
    }
}
