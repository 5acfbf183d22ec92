use std::sync::Arc;
use std::sync::Weak;
use std::time::Instant;

use super::super::connect::connect;
use super::super::process::Remote;
use super::super::session::Effect;
use super::Driver;

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
                    if let Some(connected) = &self.link {
                        connected.peer_is_ours(self.session.is_extended());
                    }
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
}
