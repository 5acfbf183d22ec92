//! Answers that the host does not get: to what the relay has asked itself.

use std::time::Duration;

use super::server::stands;
use super::words::{Action, Exit, Key, List, Response};
use super::{Phase, Relay};

impl Relay {
    /// The answer to the handshake that was sent again.
    pub(super) fn handshake_again(
        &mut self,
        now: Duration,
        response: Response,
        todo: &mut Vec<Action>,
    ) {
        let known = match response.known {
            Some(known) if !response.is_error => known,
            refused => {
                if self.phase == Phase::Starting {
                    let error = refused.and_then(|known| known.error);
                    self.refused_again(now, error, todo);
                }
                return;
            }
        };
        let given = self.handshake.as_ref();
        let version = given.and_then(|given| given.version.as_ref());
        let is_same = version.is_none() || version == known.version.as_ref();
        if let Some(key) = given.and_then(|given| given.key) {
            todo.push(Action::Store(key));
        }
        if is_same {
            self.ready(now, todo);
        } else {
            self.is_leaving = true;
            self.fail(now, "it speaks another protocol version than before", todo);
            todo.push(Action::Exit(Exit::OtherVersion));
        }
    }

    fn refused_again(
        &mut self,
        now: Duration,
        error: Option<(i64, String)>,
        todo: &mut Vec<Action>,
    ) {
        // The next host is not told that all is well.
        let handshake = self.handshake.as_ref().and_then(|given| given.key);
        let seen = std::mem::take(&mut self.seen).into_keys();
        todo.extend(handshake.into_iter().chain(seen).map(Action::Forget));
        let said = error.map_or_else(String::new, |(_, message)| format!(": {message}"));
        self.fail(now, &format!("it refused the handshake{said}"), todo);
    }

    /// The answer to a question that the host knows the old answer of.
    pub(super) fn renewal(&mut self, key: Key, response: &Response, todo: &mut Vec<Action>) {
        let Some(seen) = self.seen.get_mut(&key) else {
            return;
        };
        let list = seen.list;
        match &response.known {
            Some(known) if known.digest == seen.digest => return,
            Some(known) if stands(known, response.is_error, list.is_none()) => {
                seen.digest = known.digest;
                todo.push(Action::Store(key));
            }
            // More than one page by now.
            None if response.has_next => {
                self.seen.remove(&key);
                todo.push(Action::Forget(key));
            }
            _ => return,
        }
        // Later revisions tell only those that listen, and who listens was not answered from the cache.
        if let Some(list) = list.filter(|_| self.handshake.is_some()) {
            todo.push(Action::Say(list_changed(list)));
        }
    }
}

fn list_changed(list: List) -> Vec<u8> {
    let what = match list {
        List::Tools => "tools",
        List::Prompts => "prompts",
        List::Resources => "resources",
    };
    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/{what}/list_changed\"}}\n")
        .into_bytes()
}
