//! A line of the host.

use std::rc::Rc;
use std::time::Duration;

use super::bounds::{KEPT, REQUESTS};
use super::flight::{Kind, Pending};
use super::words::{Action, FromHost, Key, List, Method, Request};
use super::{Handshake, Long, Phase, Relay, Said, answer, refusal};
use crate::lazy::message::Id;

impl Relay {
    /// Decides on a line of the host, which is given with its end.
    pub(in crate::lazy) fn host(
        &mut self,
        now: Duration,
        line: &[u8],
        what: FromHost,
    ) -> Vec<Action> {
        let mut todo = Vec::new();
        match what {
            FromHost::Request(request) => self.request(now, line, request, &mut todo),
            FromHost::Initialized => {
                self.initialized = Some(line.into());
                // It is sent after the handshake.
                if self.passes() || self.holds_handshake {
                    self.pass_or_hold(line, &mut todo);
                }
            }
            FromHost::Cancelled(id) => {
                self.flight.cancel(&id);
                // It may be at work at it.
                self.used = now;
                self.pass_or_hold(line, &mut todo);
            }
            FromHost::Notification | FromHost::Blank => self.pass_or_hold(line, &mut todo),
            FromHost::Response(id) => {
                // Not to a server that has not asked.
                if self.asked.remove(&id).is_some() {
                    self.used = now;
                    todo.push(Action::Pass);
                } else {
                    self.unanswered.remove(&id);
                }
            }
            FromHost::Batch => {
                self.is_legacy = true;
                self.wake_for(now, line, &mut todo);
                self.is_kept = true;
            }
            FromHost::Long => {
                self.is_legacy = true;
                self.long = match self.passes() {
                    true => Long::Given,
                    false => Long::Held,
                };
                self.wake_for(now, line, &mut todo);
                self.is_kept = true;
            }
            FromHost::More => match self.long {
                Long::Held => self.held.extend_from_slice(line),
                Long::Given if self.passes() => todo.push(Action::Pass),
                // It would be the beginning of a line to another server.
                Long::Given | Long::Lost => {}
            },
            FromHost::Other => self.wake_for(now, line, &mut todo),
        }
        todo
    }

    fn request(&mut self, now: Duration, line: &[u8], request: Request, todo: &mut Vec<Action>) {
        let Request {
            id,
            text,
            method,
            is_modern,
            key,
            cached,
        } = request;
        self.is_legacy |= !is_modern && method != Method::Discover;
        let kept: Rc<[u8]> = match method {
            Method::Initialize | Method::SetLevel | Method::Subscribe(_) => line.into(),
            // One that is too long to be remembered is a request as any other.
            Method::List(_) | Method::Discover if line.len() <= KEPT.bytes => line.into(),
            _ => Rc::from([]),
        };
        let key = key.filter(|_| !kept.is_empty());
        // Nothing that was said before waits: the answer may come at once.
        let is_quiet = self.policy.lazy
            && self.held.is_empty()
            && !self.is_leaving
            && matches!(
                self.phase,
                Phase::Asleep | Phase::Ending | Phase::Waiting { .. }
            );
        match (&method, &cached) {
            (Method::Ping, _) if is_quiet && self.is_legacy => {
                todo.push(Action::Say(answer(&text, "\"result\":{}")));
                return;
            }
            (Method::Initialize, Some(known)) if is_quiet => {
                let version = known.version.clone();
                self.handshake = Some(Handshake {
                    id,
                    line: kept,
                    key,
                    version,
                });
                todo.push(Action::Answer);
                return;
            }
            (Method::List(_) | Method::Discover, Some(known)) if is_quiet => {
                if let Some(key) = key {
                    self.remember(key, list_of(&method), id, kept, known.digest);
                }
                todo.push(Action::Answer);
                return;
            }
            _ => {}
        }
        let kind = match method {
            Method::Initialize => Kind::Initialize,
            Method::Discover if key.is_some() => Kind::Discover(Rc::clone(&kept)),
            Method::List(list) if key.is_some() => Kind::List(list, Rc::clone(&kept)),
            Method::Ping => Kind::Ping,
            _ => Kind::Other,
        };
        let pending = Pending { text, key, kind };
        self.has_refused = !self.flight.has_room(&pending);
        if self.has_refused {
            let why = format!(
                "{} requests, or {} MiB of them, have no answer yet: this one was not passed on",
                REQUESTS.number,
                REQUESTS.bytes >> 20
            );
            todo.push(refusal(&pending.text, &why));
            return;
        }
        if method != Method::Ping {
            self.used = now;
        }
        let (is_task, is_handshake) = (method == Method::Task, method == Method::Initialize);
        self.note(method, &id, kept, key);
        self.flight.begin(id, pending);
        self.holds_handshake |= is_handshake;
        self.wake_for(now, line, todo);
        self.is_kept |= is_task;
    }

    /// Keeps account of what a request changes in the server.
    fn note(&mut self, method: Method, id: &Id, line: Rc<[u8]>, key: Option<Key>) {
        let id = id.clone();
        match method {
            Method::Initialize => {
                let version = None;
                self.handshake = Some(Handshake {
                    id,
                    line,
                    key,
                    version,
                });
                self.initialized = None;
            }
            Method::SetLevel => self.level = Some(Said { id, line }),
            Method::Subscribe(uri) => {
                self.subscriptions.remove(&uri);
                let sizes = self
                    .subscriptions
                    .iter()
                    .map(|(uri, said)| uri.len() + said.line.len());
                if KEPT.allows_beside(sizes, uri.len() + line.len()) {
                    self.subscriptions.insert(uri, Said { id, line });
                } else {
                    self.is_kept = true;
                }
            }
            Method::Unsubscribe(uri) => {
                self.subscriptions.remove(&uri);
            }
            _ => {}
        }
    }

    /// To the server, which is started if there is none.
    fn wake_for(&mut self, now: Duration, line: &[u8], todo: &mut Vec<Action>) {
        if self.passes() {
            self.holds_handshake = false;
            todo.push(Action::Pass);
            return;
        }
        self.held.extend_from_slice(line);
        if self.phase == Phase::Asleep {
            self.start(now, todo);
        }
    }

    /// To the server, if there is one; behind what it has not got yet.
    fn pass_or_hold(&mut self, line: &[u8], todo: &mut Vec<Action>) {
        if self.passes() {
            todo.push(Action::Pass);
        } else if self.phase == Phase::Starting || !self.held.is_empty() {
            self.held.extend_from_slice(line);
        }
    }
}

fn list_of(method: &Method) -> Option<List> {
    match method {
        Method::List(list) => Some(*list),
        _ => None,
    }
}
