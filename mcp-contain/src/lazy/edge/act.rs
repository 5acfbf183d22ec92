//! Actions that were decided, done.

use super::server::Server;
use super::{Edge, Side, Subject};
use crate::failure::Failure;
use crate::lazy::decision::words::Action;
use crate::lazy::reading;

/// The most that waits for a server that asks and reads no answer.
const REPLIES_MAX: usize = 1 << 20;

impl Edge {
    /// Does what was decided.
    pub(super) fn act(&mut self, todo: Vec<Action>, subject: Option<Subject<'_>>) {
        let Subject {
            line,
            from,
            id,
            entry,
            answer,
        } = subject.unwrap_or_default();
        let mut failed = None;
        for action in todo {
            match action {
                Action::Pass => match from {
                    Side::Host => self.tell(line),
                    Side::Server => self.to_host.push(line),
                },
                Action::Answer => {
                    if let Some(entry) = &entry {
                        self.to_host.push(&reading::answer(id, entry));
                    }
                }
                Action::Say(said) => self.to_host.push(&said),
                Action::Tell(told) => self.tell(&told),
                Action::Reply(said) => {
                    let waits = self.server.as_ref().map_or(0, |server| server.to_it.len());
                    if waits < REPLIES_MAX {
                        self.tell(&said);
                    }
                }
                Action::Store(key) => {
                    if let Some(answer) = &answer {
                        self.cache.store(&key, answer.clone());
                    }
                }
                Action::Forget(key) => self.cache.forget(&key),
                Action::Start => match Server::start(&self.shim, &self.mask) {
                    Ok(server) => {
                        self.server = Some(server);
                        self.flush = None;
                        self.is_flushed = false;
                        self.has_failed = false;
                    }
                    Err(error) => {
                        failed = Some(format!("the server could not be started: {error}"))
                    }
                },
                Action::Close => self.close(false),
                Action::CloseNow => self.close(true),
                Action::Exit(exit) => self.exit = self.exit.or(Some(exit)),
            }
        }
        if let Some(why) = failed {
            Failure::wrapper(&why).say();
            self.has_failed = true;
            let todo = self.relay.gone(self.now(), &why);
            self.act(todo, None);
        }
    }

    fn tell(&mut self, bytes: &[u8]) {
        if let Some(server) = &mut self.server
            && server.input.is_some()
        {
            server.to_it.push(bytes);
        }
    }

    fn close(&mut self, at_once: bool) {
        let (now, grace) = (self.now(), self.policy.grace);
        if let Some(server) = &mut self.server {
            server.is_closing = true;
            if at_once {
                if self.input.is_none() {
                    // What is held is not written yet, and of what is written the handshake was sent before.
                    let left = match self.relay.held() {
                        0 => server.to_it.len(),
                        held => held,
                    };
                    self.lost = self.lost.saturating_add(left as u64);
                }
                server.close(now, grace);
            }
        }
    }
}
