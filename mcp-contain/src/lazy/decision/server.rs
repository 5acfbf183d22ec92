//! A line of the server.

use std::time::Duration;

use super::bounds::REQUESTS;
use super::flight::{Kind, Pending};
use super::words::{Action, FromServer, Known, Response};
use super::{Own, Phase, Relay, error};
use crate::lazy::message::Id;

/// Errors that stand: there is no such method, or no such protocol version.
const FINAL: [i64; 2] = [-32601, -32022];

impl Relay {
    /// Decides on a line of the server.
    pub(in crate::lazy) fn server(&mut self, now: Duration, what: FromServer) -> Vec<Action> {
        let mut todo = Vec::new();
        match what {
            FromServer::Response(mut response) => {
                response.known.take_if(|_| response.has_next);
                match self.own.remove(&response.id) {
                    Some(Own::Handshake) => self.handshake_again(now, response, &mut todo),
                    Some(Own::Renewal(key)) => self.renewal(key, &response, &mut todo),
                    Some(Own::State) => {}
                    None => {
                        todo.push(Action::Pass);
                        if let Some(pending) = self.flight.end(&response.id) {
                            if !matches!(pending.kind, Kind::Ping) {
                                self.used = now;
                            }
                            self.is_kept |= response.is_task;
                            self.learn(pending, response, &mut todo);
                        }
                    }
                }
            }
            FromServer::Request { id, text } => self.question(now, id, text, &mut todo),
            FromServer::Cancelled(id) => {
                self.asked.remove(&id);
                todo.push(Action::Pass);
            }
            FromServer::Progress => {
                self.used = now;
                todo.push(Action::Pass);
            }
            FromServer::Other => todo.push(Action::Pass),
        }
        todo
    }

    /// A request of the server.
    fn question(&mut self, now: Duration, id: Id, text: Box<[u8]>, todo: &mut Vec<Action>) {
        let mut refuse = |why: &str| todo.push(Action::Reply(error(&text, why)));
        let sizes = self.asked.values().map(|text| text.len());
        if self.unanswered.contains(&id) || self.has_forgotten {
            // The host's answer to its predecessor would be taken for its own.
            refuse("a request of this id is not answered yet");
        } else if !REQUESTS.allows_beside(sizes, text.len()) {
            refuse("too many requests of this server have no answer yet");
        // Nobody would hear the answer.
        } else if !matches!(self.phase, Phase::Ending | Phase::Failing) {
            self.used = now;
            self.asked.insert(id, text);
            todo.push(Action::Pass);
        }
    }

    /// Remembers an answer that the host gets.
    fn learn(&mut self, pending: Pending, response: Response, todo: &mut Vec<Action>) {
        let Pending { key, kind, .. } = pending;
        let Some(known) = response.known else {
            // More than one page by now.
            if let Some(key) = key.filter(|_| response.has_next) {
                self.seen.remove(&key);
                todo.push(Action::Forget(key));
            }
            return;
        };
        if matches!(kind, Kind::Initialize)
            && let Some(handshake) = &mut self.handshake
        {
            handshake.version.clone_from(&known.version);
        }
        let is_discovery = matches!(kind, Kind::Discover(_));
        let Some(key) = key.filter(|_| stands(&known, response.is_error, is_discovery)) else {
            return;
        };
        todo.push(Action::Store(key));
        match kind {
            Kind::List(list, line) => {
                self.remember(key, Some(list), response.id, line, known.digest)
            }
            Kind::Discover(line) => self.remember(key, None, response.id, line, known.digest),
            Kind::Initialize | Kind::Ping | Kind::Other => {}
        }
    }
}

/// Whether an answer can be given to another host: of a server that knows the question and cannot answer it now, nothing is kept.
pub(super) fn stands(known: &Known, is_error: bool, is_discovery: bool) -> bool {
    let code = known.error.as_ref().map(|(code, _)| code);
    let is_final = code.is_some_and(|code| FINAL.contains(code));
    !is_error || (is_final && is_discovery)
}
