//! Decides on lines of the server.

use super::events::{Action, Answer, Exit, FromServer, Key, Method, Response};
use super::flight::{Pending, REQUESTS};
use super::{Asked, Own, Phase, Relay, error, notification};
use crate::lazy::line::Id;

/// Final errors: no such method or protocol version.
const FINAL: [i64; 2] = [-32601, -32022];

impl Relay {
    pub(super) fn server(&mut self, what: FromServer) {
        match what {
            FromServer::Response(response) => match self.own.remove(&response.id) {
                Some(Own::Handshake) => self.repeated(response),
                Some(Own::Renewal(key)) => self.renewed(key, &response),
                Some(Own::Level) => {}
                None => self.response(response),
            },
            FromServer::Request(id, text) => self.question(id, text),
            FromServer::Cancelled(id) => {
                if self.asked.get(&id).is_some_and(|asked| !asked.is_over) {
                    self.asked.remove(&id);
                }
                self.todo.push(Action::Pass);
            }
            FromServer::Progress => {
                self.used = self.now;
                self.todo.push(Action::Pass);
            }
            FromServer::Other => self.todo.push(Action::Pass),
        }
    }

    fn response(&mut self, response: Response) {
        if self.phase == Phase::Ending {
            return;
        }
        self.todo.push(Action::Pass);
        let Some(pending) = self.flight.end(&response.id) else {
            return;
        };
        if pending.method != Method::Ping {
            self.used = self.now;
        }
        self.is_kept |= response.is_task;
        self.learn(pending, response);
    }

    fn question(&mut self, id: Id, text: Box<[u8]>) {
        let sizes = self.asked.values().map(|asked| asked.text.len());
        let refused = if self.asked.contains_key(&id) {
            Some("a request of this id is not answered yet")
        } else {
            let is_allowed = REQUESTS.allows(sizes, text.len());
            (!is_allowed).then_some("too many requests of this server have no answer yet")
        };
        if let Some(why) = refused {
            self.todo.push(Action::Reply(error(&text, why)));
        // An ending server would not read the answer.
        } else if !matches!(self.phase, Phase::Ending | Phase::Failing) {
            self.used = self.now;
            let is_over = false;
            self.asked.insert(id, Asked { text, is_over });
            self.todo.push(Action::Pass);
        }
    }

    fn learn(&mut self, pending: Pending, response: Response) {
        let Pending {
            key, method, line, ..
        } = pending;
        if response.has_next {
            // It has become more than one page.
            return key.into_iter().for_each(|key| self.forget(key));
        }
        let Some(answer) = response.answer else {
            return;
        };
        if method == Method::Initialize
            && let Some(handshake) = &mut self.handshake
        {
            handshake.learn(&answer);
        }
        let is_discovery = method == Method::Discover;
        let Some(key) = key.filter(|_| is_lasting(&answer, response.is_error, is_discovery)) else {
            return;
        };
        self.todo.push(Action::Store(key, answer.text));
        if is_discovery || matches!(method, Method::List(_)) {
            self.remember(key, (method, response.id, line, answer.digest));
        }
    }

    fn repeated(&mut self, response: Response) {
        let given = self.handshake.as_ref();
        let key = given.and_then(|given| given.key);
        let version = given.and_then(|given| given.version.as_ref());
        let answer = match response.answer {
            Some(answer) if !response.is_error => answer,
            refused if self.phase == Phase::Starting => {
                // The next host must not get the cached answers.
                let seen = std::mem::take(&mut self.seen).into_keys();
                self.todo
                    .extend(key.into_iter().chain(seen).map(Action::Forget));
                let error = refused.and_then(|answer| answer.error);
                let why = error.map_or_else(String::new, |(_, message)| format!(": {message}"));
                return self.fail(&format!("it refused the handshake{why}"));
            }
            _ => return,
        };
        let is_same = version.is_none() || version == answer.version.as_ref();
        if let Some(key) = key {
            self.todo.push(Action::Store(key, answer.text));
        }
        if is_same {
            self.ready();
        } else {
            self.is_leaving = true;
            self.fail("it speaks another protocol version than before");
            self.todo.push(Action::Exit(Exit::OtherVersion));
        }
    }

    fn renewed(&mut self, key: Key, response: &Response) {
        let Some(seen) = self.seen.get_mut(&key) else {
            return;
        };
        let method = seen.method;
        let is_discovery = method == Method::Discover;
        match &response.answer {
            _ if response.has_next => self.forget(key),
            Some(answer) if answer.digest == seen.digest => return,
            Some(answer) if is_lasting(answer, response.is_error, is_discovery) => {
                seen.digest = answer.digest;
                self.todo.push(Action::Store(key, answer.text.clone()));
            }
            _ => return,
        }
        // Later revisions notify only listeners, and a listening host was not answered from the
        // cache.
        if let (Method::List(of), Some(_)) = (method, &self.handshake) {
            let changed = notification(&format!("{of}/list_changed"), "");
            self.todo.push(changed);
        }
    }

    fn forget(&mut self, key: Key) {
        self.seen.remove(&key);
        self.todo.push(Action::Forget(key));
    }
}

/// Returns whether an answer may be given to another host. Temporary errors may not.
fn is_lasting(answer: &Answer, is_error: bool, is_discovery: bool) -> bool {
    let code = answer.error.as_ref().map(|(code, _)| code);
    let is_final = code.is_some_and(|code| FINAL.contains(code));
    !is_error || (is_final && is_discovery)
}
